// Signs of life of a worker's liveness thread, for checks of its health.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/base/deadline.h"

namespace lockstep::worker {

// Threads: safe.
class LivenessHealth {
 public:
  using TimePoint = Deadline::Clock::time_point;

  // The thread has come round, as it does at least once per `interval`.
  void NoteRound(TimePoint now, std::chrono::milliseconds interval) {
    interval_millis_ = interval.count();
    beat_ = now.time_since_epoch().count();
  }
  // The thread has ended, as it was told to: nothing is expected of it.
  void NoteEnd() { beat_ = 0; }
  void NoteControllerHeard(TimePoint now) { heard_ = now.time_since_epoch().count(); }

  // Since it came round last; 0 if it rests.
  Deadline::Clock::duration SinceRound() const { return Since(beat_); }
  std::chrono::milliseconds interval() const { return std::chrono::milliseconds(interval_millis_); }
  // Since the controller was heard last; 0 if it never was.
  Deadline::Clock::duration SinceControllerHeard() const { return Since(heard_); }

 private:
  using Rep = Deadline::Clock::rep;

  static Deadline::Clock::duration Since(const std::atomic<Rep>& when) {
    const Deadline::Clock::duration then(when.load());
    if (then.count() == 0) return then;
    return Deadline::Clock::now().time_since_epoch() - then;
  }

  std::atomic<Rep> beat_{0};
  std::atomic<Rep> heard_{0};
  std::atomic<int64_t> interval_millis_{0};
};

}  // namespace lockstep::worker
