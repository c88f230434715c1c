// Waiting for input on several channels and descriptors: awake for a moment, then asleep.
#pragma once

#include <chrono>

#include "absl/types/span.h"
#include "runtime/base/deadline.h"
#include "runtime/control/awake_phase.h"
#include "runtime/control/channel.h"

namespace lockstep::control {

// The thread yields and looks again for `poll_before_sleep`, and only then sleeps (AwakePhase): a
// busy exchange never sleeps, an idle one costs nothing.
//
// Threads: one thread per waiter.
class InputWaiter {
 public:
  explicit InputWaiter(std::chrono::microseconds poll_before_sleep) : awake_(poll_before_sleep) {}

  // True as soon as a channel has input or a descriptor is readable; false at the deadline.
  bool Wait(absl::Span<Channel* const> channels, absl::Span<const int> descriptors,
            Deadline deadline);

 private:
  AwakePhase awake_;
};

// A descriptor that threads wake a waiter with.
//
// Threads: safe.
class WakeUp {
 public:
  WakeUp();
  ~WakeUp();
  WakeUp(const WakeUp&) = delete;
  WakeUp& operator=(const WakeUp&) = delete;

  void Signal();
  // Forgets past signals.
  void Clear();
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace lockstep::control
