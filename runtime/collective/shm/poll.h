// Waiting for what has no bell to sleep on: other processes that start.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/base/deadline.h"

namespace lockstep::collective::shm {

// Calls `ready` until it is true or the deadline has passed; false means the latter. Eager at
// first, because ranks mostly start together, then ever more patient.
template <typename Ready>
bool Poll(Ready ready, Deadline deadline) {
  constexpr int kYields = 100;
  constexpr auto kLongestNap = std::chrono::microseconds(1000);
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    sched_yield();
  }
  for (auto nap = std::chrono::microseconds(20);; nap = std::min(2 * nap, kLongestNap)) {
    if (ready()) return true;
    if (deadline.Expired()) return false;
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace lockstep::collective::shm
