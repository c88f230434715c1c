// A cluster on this host some of whose processes have ended while others still run: what `up` does
// then. Nothing of it is changed; what has ended is started again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "services/local/cluster_config.h"
#include "tools/cli/run_directory.h"

namespace lockstep::cli {

// The cluster of this name some of whose processes have ended, if there is one. kAlreadyExists: all
// of them run; the error tells first what is in the way of a worker that is lost although its
// process is there, as one that is stopped. Removes what a dead cluster left.
StatusOr<std::optional<ClusterRecord>> FindBroken(const std::string& name);

// Keeps with the cluster what `up` was given for it, for CheckIsAsGiven().
Status KeepConfiguration(const std::string& directory, const local::ClusterOptions& cluster);

// A usage error, with what differs, unless the cluster was started with this configuration: it is
// not started again with another one.
Status CheckIsAsGiven(const ClusterRecord& record, const local::ClusterOptions& cluster);

// Starts those processes of `record` again that have ended, with the configuration that they had:
// the controller where it was, so that workers that still run come back to it by themselves. Waits
// until all workers are ready; kFailedPrecondition tells of one that holds a lost rank. The record
// has the new processes then, also after an error.
StatusOr<std::vector<ProcessRecord>> MakeWholeAgain(ClusterRecord& record, Deadline deadline);

}  // namespace lockstep::cli
