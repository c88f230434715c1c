// What tests do to processes from outside, and look at to see that nothing of a cluster is left
// behind.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"

namespace lockstep::testing {

// True once no process of `pids` runs any more; false if one still does at `deadline`. Zombies of
// other parents count as ended: only their parent has not looked yet.
bool AllGone(const std::vector<pid_t>& pids, Deadline deadline);

// Stops a process (SIGSTOP) and returns when none of its threads runs any more, which is later than
// the signal: until then it may still answer.
void Suspend(pid_t pid);

// The shared memory of clusters that process `pid` maps (0: this one) and whose names still exist,
// as paths in /dev/shm.
std::set<std::string> SegmentsOf(pid_t pid);

bool NoneExists(const std::set<std::string>& paths);

}  // namespace lockstep::testing
