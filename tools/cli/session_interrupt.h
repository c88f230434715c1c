// ^C in a command that has a session: the session's work is aborted on all ranks and the session
// ended, so that the ranks are free at once and not when the session's lease has ended. ^C once
// more ends the process at once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/control/input_waiter.h"
#include "tools/cli/interrupt.h"

namespace lockstep::cli {

// Threads: safe; one of its own.
class SessionInterrupt {
 public:
  // To be made before other threads are started. Until Protect(), ^C ends the process at once.
  static StatusOr<std::unique_ptr<SessionInterrupt>> Make();
  ~SessionInterrupt();

  // `end` ends the session, and is called on another thread, once; the calls of the session fail
  // then. If it cannot, the process ends.
  void Protect(std::function<Status()> end);

  // `status` of what was interrupted; exit code 130, and what happened, if ^C has come.
  Status Explain(const Status& status) const;

 private:
  explicit SessionInterrupt(InterruptGuard guard);
  void Await();

  InterruptGuard guard_;
  control::WakeUp over_;
  std::mutex mutex_;
  std::function<Status()> end_;
  std::atomic<bool> came_{false};
  std::thread thread_;
};

}  // namespace lockstep::cli
