// ^C (and SIGTERM) as something to wait for, so that a command can put things in order first.
#pragma once

#include "runtime/base/status.h"

namespace lockstep::cli {

// While it lives, SIGINT, SIGTERM and SIGHUP do not end the process; they make fd() readable. To be
// made before other threads are started. Child processes are not affected.
class InterruptGuard {
 public:
  static StatusOr<InterruptGuard> Make();

  InterruptGuard(InterruptGuard&& other) noexcept;
  InterruptGuard& operator=(InterruptGuard&&) = delete;
  // A signal that came and was not taken ends the process now, as it would have before.
  ~InterruptGuard();

  int fd() const { return fd_; }
  // True if signals have come since the last call.
  bool Take();
  // The signals that come from now on end the process, as they would without this object. For the
  // thread that calls this: one is enough.
  static void LetThrough();

 private:
  explicit InterruptGuard(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lockstep::cli
