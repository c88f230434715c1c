// What parts ask of the ways on which messages reach workers or clients: of the memory that the
// controller shares with those of its host, above all.
#pragma once

#include <optional>

#include "runtime/control/channel.h"
#include "runtime/control/shm/ring_handover.h"

namespace lockstep::controller {

// How messages reach a peer.
enum class MessagePath {
  kSocket,
  kRing,    // memory that it shares with the controller
  kDirect,  // it is in the controller's process
};

// Threads: one at a time. channel_rings.h is the real one.
class CommandRings {
 public:
  virtual ~CommandRings() = default;

  // Where the peer finds its ring, for its welcome; none: it has it, or gets none.
  virtual std::optional<control::RingOffer> OfferTo(const control::PeerName& peer) = 0;
  // The peer is lost: nobody waits for it to read.
  virtual void GiveUp(const control::PeerName& peer) = 0;
  // The peer has read all that is in its ring, and more waits until others have.
  virtual bool IsHeldBack(const control::PeerName& peer) const = 0;
  virtual MessagePath PathTo(const control::PeerName& peer) const = 0;
};

}  // namespace lockstep::controller
