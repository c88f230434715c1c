// What parts ask of the tree in which workers pass commands on to others.
#pragma once

#include <optional>
#include <vector>

#include "runtime/control/channel.h"
#include "runtime/control/tree/tree_note.h"

namespace lockstep::controller {

// Threads: one at a time. channel_tree.h is the real one.
class CommandTree {
 public:
  virtual ~CommandTree() = default;

  // There is another world: these may be in a tree, in this order. Their welcomes come next.
  virtual void Arrange(const std::vector<control::PeerName>& peers) = 0;
  // What a worker is told of its place, in its welcome; none: it has none.
  virtual std::optional<control::TreeOffer> OfferTo(const control::PeerName& peer) = 0;
  // The worker is lost: what it has passed on to others goes to them directly.
  virtual void GiveUp(const control::PeerName& peer) = 0;
  // The worker does not get what was sent: it gets it directly. False: it does already.
  virtual bool Reparent(const control::PeerName& peer) = 0;
  // Commands reach it through another worker.
  virtual bool IsByRelay(const control::PeerName& peer) const = 0;
};

}  // namespace lockstep::controller
