// The real rings: those of a channel, if it has any.
#pragma once

#include <optional>

#include "runtime/control/shm/ring_server_channel.h"
#include "services/controller/common/command_rings.h"

namespace lockstep::controller {

// Threads: that of the channel.
class ChannelRings final : public CommandRings {
 public:
  // `channel` is borrowed; null: all peers are reached by socket.
  explicit ChannelRings(control::RingServerChannel* channel) : channel_(channel) {}

  std::optional<control::RingOffer> OfferTo(const control::PeerName& peer) override {
    if (channel_ == nullptr) return std::nullopt;
    return channel_->OfferTo(peer);
  }
  void GiveUp(const control::PeerName& peer) override {
    if (channel_ != nullptr) channel_->GiveUp(peer);
  }
  bool IsHeldBack(const control::PeerName& peer) const override {
    return channel_ != nullptr && channel_->IsHeldBack(peer);
  }
  bool IsByRing(const control::PeerName& peer) const override {
    return channel_ != nullptr && channel_->IsByRing(peer);
  }

 private:
  control::RingServerChannel* const channel_;
};

}  // namespace lockstep::controller
