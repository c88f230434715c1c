// How long a thread works.
#pragma once

#include <time.h>

#include <utility>

namespace lockstep::bench {

// What `work` takes of this thread's processor time, in nanoseconds: other programs on the machine
// do not count.
template <typename Work>
double ThreadNanos(Work&& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  std::forward<Work>(work)();
  return now() - start;
}

// Nothing looks at `result`, or at what it points to; the compiler must not know.
template <typename T>
void Keep(const T& result) {
  asm volatile("" : : "g"(result) : "memory");
}

}  // namespace lockstep::bench
