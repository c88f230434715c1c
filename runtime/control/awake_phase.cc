#include "runtime/control/awake_phase.h"

#include <sched.h>

namespace lockstep::control {
namespace {

// Waiting threads that yield to each other come back within a few microseconds.
constexpr std::chrono::microseconds kLongYield{100};
constexpr std::chrono::milliseconds kSleepAtOnceFor{100};

}  // namespace

void AwakePhase::Begin() {
  const Clock::time_point now = Clock::now();
  end_ = now < crowded_until_ ? now : now + longest_;
}

bool AwakePhase::Yield() {
  const Clock::time_point before = Clock::now();
  if (before >= end_) return false;
  sched_yield();
  const Clock::time_point after = Clock::now();
  if (after - before > kLongYield) {
    crowded_until_ = after + kSleepAtOnceFor;
    end_ = after;
  }
  return true;
}

}  // namespace lockstep::control
