// Warnings that others can cause: whoever does so again and again must not fill the disk with them.
#pragma once

#include <mutex>

#include "runtime/base/deadline.h"
#include "runtime/base/log.h"

namespace lockstep::log {

// Threads: safe.
class Limit {
 public:
  // How many are written each minute; how many more there were is told in the next one.
  explicit Limit(int per_minute = 20) : per_minute_(per_minute) {}

  template <typename... Parts>
  void Warn(const Parts&... parts) {
    int left_out = 0;
    if (!Take(&left_out)) return;
    if (left_out > 0) log::Warn("and ", left_out, " more like the next one, in the last minute");
    log::Warn(parts...);
  }

 private:
  // `left_out`: those of the minute that has just ended.
  bool Take(int* left_out) {
    std::lock_guard lock(mutex_);
    if (minute_.Expired()) {
      minute_ = Deadline::After(std::chrono::minutes(1));
      *left_out = count_ > per_minute_ ? count_ - per_minute_ : 0;
      count_ = 0;
    }
    return ++count_ <= per_minute_;
  }

  const int per_minute_;
  std::mutex mutex_;
  Deadline minute_ = Deadline::After({});
  int count_ = 0;
};

}  // namespace lockstep::log
