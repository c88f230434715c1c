// Where another thread asks what the registers hold, and the executing thread, whose they are,
// tells.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/worker_report.h"

namespace lockstep::worker {

// Threads: Ask() is one thread's, the rest the executing thread's. While nothing is asked, that
// pays for one relaxed load.
class RegisterQueryQueue {
 public:
  struct Question {
    SessionId session;  // of this one alone; none: of all
    size_t most = 0;    // registers to tell of, over all sessions
  };
  using Holdings = std::vector<SessionHoldings>;

  // kDeadlineExceeded: the executing thread has not come round to it by then.
  StatusOr<Holdings> Ask(const Question& question, Deadline deadline);

  bool IsAsked() const { return asked_.load(std::memory_order_relaxed); }
  // Readable while an Ask() waits.
  int fd() const { return wake_up_.fd(); }
  // Tells the Ask() that waits, if there still is one, what `look` finds.
  void Answer(const std::function<Holdings(const Question&)>& look);

 private:
  std::atomic<bool> asked_{false};
  control::WakeUp wake_up_;
  std::mutex mutex_;
  std::condition_variable answered_;
  Question question_;
  std::optional<Holdings> answer_;
};

}  // namespace lockstep::worker
