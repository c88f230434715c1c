// What every program that benchmarks start has in common: it never outlives its purpose.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace lockstep::bench {

// Ends this process when its parent ends, and in any case after `seconds`.
inline void LimitLife(unsigned seconds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(seconds);
}

// For what must not happen in a rival: there is no caller to return an error to.
inline void Require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::_Exit(1);
}

}  // namespace lockstep::bench
