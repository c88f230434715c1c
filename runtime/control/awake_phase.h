// The first moments of a wait: awake, giving the processor away again and again.
#pragma once

#include <chrono>

namespace lockstep::control {

// Waking a sleeping thread costs tens of microseconds; asking again right away costs less than one.
// So a waiting thread yields and asks again for a while before it sleeps. Where other work wants
// the processor, a yield costs that work's whole time slice, while a sleeper would be woken at
// once: so when yields take long, waits go to sleep without yielding for a while.
//
// Threads: one at a time.
class AwakePhase {
 public:
  explicit AwakePhase(std::chrono::microseconds longest) : longest_(longest) {}

  // A wait begins.
  void Begin();
  // Yields once, and returns true; false when it is time to sleep.
  bool Yield();

 private:
  using Clock = std::chrono::steady_clock;

  const std::chrono::microseconds longest_;
  Clock::time_point end_;
  Clock::time_point crowded_until_;
};

}  // namespace lockstep::control
