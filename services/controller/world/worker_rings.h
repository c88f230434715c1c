// The real rings: those of the workers' channel, if it has any.
#pragma once

#include <optional>

#include "runtime/control/shm/ring_server_channel.h"
#include "services/controller/common/command_rings.h"

namespace lockstep::controller {

// Threads: that of the channel.
class WorkerRings final : public CommandRings {
 public:
  // `channel` is borrowed; null: all workers are reached by socket.
  explicit WorkerRings(control::RingServerChannel* channel) : channel_(channel) {}

  std::optional<control::RingOffer> OfferTo(const control::PeerName& worker) override {
    if (channel_ == nullptr) return std::nullopt;
    return channel_->OfferTo(worker);
  }
  void GiveUp(const control::PeerName& worker) override {
    if (channel_ != nullptr) channel_->GiveUp(worker);
  }
  bool IsHeldBack(const control::PeerName& worker) const override {
    return channel_ != nullptr && channel_->IsHeldBack(worker);
  }
  bool IsByRing(const control::PeerName& worker) const override {
    return channel_ != nullptr && channel_->IsByRing(worker);
  }

 private:
  control::RingServerChannel* const channel_;
};

}  // namespace lockstep::controller
