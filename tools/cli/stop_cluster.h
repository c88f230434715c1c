// Ending a cluster that another process has started.
#pragma once

#include <chrono>
#include <string>

#include "runtime/base/status.h"
#include "tools/cli/run_directory.h"

namespace lockstep::cli {

// Asks the controller to stop all, waits up to `patience` until all processes have ended, and ends
// what is left by SIGTERM, then SIGKILL. Removes the record and the run directory. A cluster that
// is dead already is only removed.
//
// OK if nothing is left, however it ended; `*forced` names the processes that took a signal.
// kDeadlineExceeded: a process survived even SIGKILL; everything is left as it is.
Status StopCluster(const ClusterRecord& record, std::chrono::milliseconds patience,
                   std::string* forced);

}  // namespace lockstep::cli
