// What parts ask of the memory in which the controller writes commands for workers of its host.
#pragma once

#include <optional>

#include "runtime/control/channel.h"
#include "runtime/control/shm/ring_handover.h"

namespace lockstep::controller {

// Threads: one at a time. world/worker_rings.h is the real one.
class CommandRings {
 public:
  virtual ~CommandRings() = default;

  // Where the worker finds its ring, for its welcome; none: it has it, or there are no rings.
  virtual std::optional<control::RingOffer> OfferTo(const control::PeerName& worker) = 0;
  // The worker is lost: nobody waits for it to read.
  virtual void GiveUp(const control::PeerName& worker) = 0;
  // The worker has read all that is in its ring, and more waits until others have.
  virtual bool IsHeldBack(const control::PeerName& worker) const = 0;
  // Commands reach the worker by its ring.
  virtual bool IsByRing(const control::PeerName& worker) const = 0;
};

}  // namespace lockstep::controller
