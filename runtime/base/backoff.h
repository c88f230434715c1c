// Waiting for what is not announced: a GPU, say, is asked again and again whether it is done.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/base/deadline.h"

namespace lockstep {

// Between two questions: none at all for a moment, then pauses that double, so that what takes long
// costs no processor.
//
// Threads: one.
class Backoff {
 public:
  struct Pace {
    std::chrono::microseconds at_once_for;
    std::chrono::microseconds first_pause;
    std::chrono::microseconds longest_pause;
  };

  // Begins now.
  explicit Backoff(const Pace& pace) : pace_(pace), pause_(pace.first_pause) {}

  void Pause() {
    if (Deadline::Clock::now() - began_ < pace_.at_once_for) return;
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(2 * pause_, pace_.longest_pause);
  }

  Deadline::Clock::time_point began() const { return began_; }

 private:
  const Pace pace_;
  const Deadline::Clock::time_point began_ = Deadline::Clock::now();
  std::chrono::microseconds pause_;
};

}  // namespace lockstep
