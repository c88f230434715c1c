// A point in time after which a wait gives up. Every wait in Lockstep has one.
#pragma once

#include <algorithm>
#include <chrono>

namespace lockstep {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline After(Clock::duration timeout) { return Deadline(Clock::now() + timeout); }
  static Deadline At(Clock::time_point when) { return Deadline(when); }

  bool Expired() const { return Clock::now() >= when_; }
  Clock::time_point when() const { return when_; }

  // Time left, never negative.
  Clock::duration Remaining() const {
    return std::max(Clock::duration::zero(), when_ - Clock::now());
  }
  // Time left in milliseconds, rounded up, for poll-like calls.
  int RemainingMillis() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(Remaining()).count();
    return static_cast<int>(std::min<int64_t>(left, 1 << 30));
  }
  Deadline Earlier(Deadline other) const { return Deadline(std::min(when_, other.when_)); }

 private:
  explicit Deadline(Clock::time_point when) : when_(when) {}

  Clock::time_point when_;
};

}  // namespace lockstep
