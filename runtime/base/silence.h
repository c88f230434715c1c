// How long another process has been silent, as far as it can be blamed for it.
#pragma once

#include <algorithm>

#include "runtime/base/deadline.h"

namespace lockstep {

// A process that is stopped (SIGSTOP, docker pause, a machine that is suspended or migrated) hears
// nothing, and that says nothing of the others: they may have been stopped with it, and what they
// have said waits to be read. So a loop that finds that it did not run does not count that time.
//
// Threads: one at a time.
class Silence {
 public:
  using Clock = Deadline::Clock;

  // A loop looks at least once per `longest_round`, as long as this process runs.
  Silence(Clock::duration longest_round, Clock::time_point now)
      : longest_round_(longest_round), last_round_(now), last_heard_(now) {}

  // The other process was heard.
  void Hear(Clock::time_point now) { last_heard_ = now; }
  // The loop has come round.
  void Round(Clock::time_point now) {
    last_heard_ = std::min(now, last_heard_ + Gap(now));
    last_round_ = now;
  }
  // May be asked between two rounds, also before the one that comes after a gap.
  Clock::duration Length(Clock::time_point now) const {
    return std::max(Clock::duration::zero(), now - last_heard_ - Gap(now));
  }

 private:
  // For how long the loop did not run since its last round. A round that is merely late is none:
  // the other process had time to be heard.
  Clock::duration Gap(Clock::time_point now) const {
    const Clock::duration since = now - last_round_;
    return since > 2 * longest_round_ ? since - longest_round_ : Clock::duration::zero();
  }

  Clock::duration longest_round_;
  Clock::time_point last_round_;
  Clock::time_point last_heard_;
};

}  // namespace lockstep
