// Why communicators over the same connections were aborted.
#pragma once

#include <mutex>

#include "runtime/base/status.h"

namespace lockstep::collective::message {

// Threads: any.
class AbortCause {
 public:
  // True for the first cause, which stays.
  bool Set(const Status& cause) {
    std::lock_guard lock(mutex_);
    if (!aborted_.ok()) return false;
    aborted_ = Aborted(Message(cause));
    return true;
  }
  // OK, or kAborted with the cause's message.
  Status Get() const {
    std::lock_guard lock(mutex_);
    return aborted_;
  }

 private:
  mutable std::mutex mutex_;
  Status aborted_;
};

}  // namespace lockstep::collective::message
