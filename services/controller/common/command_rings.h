// What parts ask of the memory that the controller shares with workers or clients of its host.
#pragma once

#include <optional>

#include "runtime/control/channel.h"
#include "runtime/control/shm/ring_handover.h"

namespace lockstep::controller {

// Threads: one at a time. channel_rings.h is the real one.
class CommandRings {
 public:
  virtual ~CommandRings() = default;

  // Where the peer finds its ring, for its welcome; none: it has it, or there are no rings.
  virtual std::optional<control::RingOffer> OfferTo(const control::PeerName& peer) = 0;
  // The peer is lost: nobody waits for it to read.
  virtual void GiveUp(const control::PeerName& peer) = 0;
  // The peer has read all that is in its ring, and more waits until others have.
  virtual bool IsHeldBack(const control::PeerName& peer) const = 0;
  // Messages reach the peer by its ring.
  virtual bool IsByRing(const control::PeerName& peer) const = 0;
};

}  // namespace lockstep::controller
