// How many communicators of NCCL's a worker has at a time, and may have.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "runtime/base/deadline.h"

namespace lockstep::collective::nccl {

// Each takes memory of the GPU, threads, connections, and, where a host's GPUs have them, one of
// a limited number of multicast groups (NVLS). A communicator counts until NCCL has ended
// it, which is some time after its last user has let it go.
//
// Threads: safe. Ownership: what Take() returns keeps this alive.
class CommunicatorSlots : public std::enable_shared_from_this<CommunicatorSlots> {
 public:
  explicit CommunicatorSlots(int most) : most_(most) {}

  // Gives the slot back when its last holder lets it go. If all are taken, waits for one until
  // `deadline`. Null: none came back, or `cancelled`, which may be null.
  std::shared_ptr<void> Take(Deadline deadline, const std::atomic<bool>* cancelled);
  // One more, however many there are: for a communicator that cannot be done without.
  std::shared_ptr<void> TakeAnyway();

  int taken() const;
  int most() const { return most_; }

 private:
  // With mutex_ held.
  std::shared_ptr<void> TakeNow();
  void GiveBack();

  const int most_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int taken_ = 0;
};

}  // namespace lockstep::collective::nccl
