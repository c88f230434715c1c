// What is told of the end of a worker: how its process ended, what that often means, and where its
// log is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/process.h"

namespace lockstep::controller {

// "its process 101 was killed by signal 9 (Killed)". Not OK even with exit code 0: it was not asked
// to end.
std::string DescribeEnd(int pid, const ExitStatus& status);

// What may have ended it, for one who looks for the cause; empty if nothing is known. `oom_kills`:
// how many processes of this host the kernel has killed for lack of memory in the worker's time;
// none: not known.
std::string HintAtCause(const ExitStatus& status, std::optional<uint64_t> oom_kills);

// How to read the log of `rank` of this cluster.
std::string WhereItsLogIs(Rank rank, const std::string& cluster);

}  // namespace lockstep::controller
