// One that is not waited for any more, though it has not finished.
#pragma once

#include <atomic>

#include "runtime/collective/shm/block.h"
#include "runtime/collective/shm/world.h"

namespace lockstep::collective::shm {

// A member that was touching tensors of this rank when this rank stopped waiting for it. Stays
// counted in at the member's block, so that it can be watched after the team was closed.
//
// Threads: immutable.
class Straggler {
 public:
  Straggler(const Peer& peer, int entry, const Progress& progress)
      : peer_(peer), entry_(entry), progress_(progress) {
    peer_.directory().CountIn(entry);
  }
  ~Straggler() { peer_.directory().Close(entry_); }
  Straggler(const Straggler&) = delete;
  Straggler& operator=(const Straggler&) = delete;

  bool IsTouching() const {
    return progress_.touching.load(std::memory_order_seq_cst) != 0 && peer_.IsAlive();
  }

 private:
  const Peer peer_;
  const int entry_;
  const Progress& progress_;
};

}  // namespace lockstep::collective::shm
