// The real rings: those of a channel, if it has any.
#pragma once

#include <optional>

#include "runtime/control/direct/direct_server_channel.h"
#include "runtime/control/shm/ring_server_channel.h"
#include "services/controller/common/command_rings.h"

namespace lockstep::controller {

// Threads: that of the channel.
class ChannelRings final : public CommandRings {
 public:
  // Both are borrowed. `channel`: null if no peer has a ring; `direct`: null if none is in this
  // process.
  explicit ChannelRings(control::RingServerChannel* channel,
                        const control::DirectServerChannel* direct = nullptr)
      : channel_(channel), direct_(direct) {}

  std::optional<control::RingOffer> OfferTo(const control::PeerName& peer) override {
    if (channel_ == nullptr || PathTo(peer) == MessagePath::kDirect) return std::nullopt;
    return channel_->OfferTo(peer);
  }
  void GiveUp(const control::PeerName& peer) override {
    if (channel_ != nullptr) channel_->GiveUp(peer);
  }
  bool IsHeldBack(const control::PeerName& peer) const override {
    return channel_ != nullptr && channel_->IsHeldBack(peer);
  }
  MessagePath PathTo(const control::PeerName& peer) const override {
    if (direct_ != nullptr && direct_->Has(peer)) return MessagePath::kDirect;
    const bool by_ring = channel_ != nullptr && channel_->IsByRing(peer);
    return by_ring ? MessagePath::kRing : MessagePath::kSocket;
  }

 private:
  control::RingServerChannel* const channel_;
  const control::DirectServerChannel* const direct_;
};

}  // namespace lockstep::controller
