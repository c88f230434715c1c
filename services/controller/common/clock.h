// The time, as the controller's parts know it: they are given a clock, and never ask the system's.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"

namespace lockstep::controller {

using TimePoint = Deadline::Clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  // One that no controller had before: see controller::NewEpoch().
  virtual Epoch NewEpoch() const = 0;
};

// An epoch that no controller had before: workers of an earlier controller are known by it,
// although they speak to the same endpoints. At least one more than any that this process has used.
// Greater than those of earlier processes, too, unless the clock was set back: where that matters,
// what workers tell of epochs that they were in counts as well (world.h).
//
// Threads: safe.
Epoch NewEpoch();
// One of this time of day, with some bits of `random`, so that two processes that read the same
// time have different ones. All of a later millisecond are greater.
Epoch EpochAt(std::chrono::milliseconds time_of_day, uint64_t random);

// The system's.
class SystemClock final : public Clock {
 public:
  TimePoint Now() const override { return Deadline::Clock::now(); }
  Epoch NewEpoch() const override { return controller::NewEpoch(); }
};

// When the loop has to handle its timers next.
//
// Threads: one at a time.
class Timers {
 public:
  // They are handled no more often than this, ...
  static constexpr std::chrono::milliseconds kResolution{10};
  // ... and at least this often, for what comes without a message: stuck workers, broken
  // connections, ends of clients' processes, revoked keys. Each time wakes an idle machine up.
  static constexpr std::chrono::milliseconds kInterval{300};

  // *clock must outlive the timers.
  explicit Timers(const Clock& clock) : clock_(clock) {}

  // The deadline that a client asks for, a day from now at most; the timers are handled when it has
  // passed.
  Deadline After(uint64_t millis);

  Deadline next() const { return next_; }
  // They are being handled. Returns how long they were not.
  Deadline::Clock::duration Begin(TimePoint now);
  // They have been. `next` is the first deadline that was found.
  void End(TimePoint now, Deadline next);

 private:
  const Clock& clock_;
  Deadline next_ = Deadline::At({});
  TimePoint handled_;
};

}  // namespace lockstep::controller
