// The real tree: that of a channel, if it has one.
#pragma once

#include <optional>
#include <vector>

#include "runtime/control/tree/tree_server_channel.h"
#include "services/controller/common/command_tree.h"

namespace lockstep::controller {

// Threads: that of the channel.
class ChannelTree final : public CommandTree {
 public:
  // `channel` is borrowed; null: all workers are reached directly.
  explicit ChannelTree(control::TreeServerChannel* channel) : channel_(channel) {}

  void Arrange(const std::vector<control::PeerName>& peers) override {
    if (channel_ != nullptr) channel_->Arrange(peers);
  }
  std::optional<control::TreeOffer> OfferTo(const control::PeerName& peer) override {
    if (channel_ == nullptr) return std::nullopt;
    return channel_->OfferTo(peer);
  }
  void GiveUp(const control::PeerName& peer) override {
    if (channel_ != nullptr) channel_->GiveUp(peer);
  }
  bool Reparent(const control::PeerName& peer) override {
    return channel_ != nullptr && channel_->Reparent(peer);
  }
  bool IsByRelay(const control::PeerName& peer) const override {
    return channel_ != nullptr && channel_->IsBelowAnother(peer);
  }

 private:
  control::TreeServerChannel* const channel_;
};

}  // namespace lockstep::controller
