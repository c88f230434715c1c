// What the kernel tells about a running process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>

#include "runtime/base/status.h"

namespace lockstep::bench {

// Time on a processor of all threads that live, to the nanosecond (the usual counters have 10 ms).
StatusOr<std::chrono::duration<double>> CpuTime(pid_t pid);

// Resident memory, shared pages included.
StatusOr<size_t> ResidentBytes(pid_t pid);

}  // namespace lockstep::bench
