// Where the logs of a cluster are, which may have ended, and badly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "tools/cli/run_directory.h"

namespace lockstep::cli {

// Of a cluster that `lockstep up` has started on this host: by its endpoint, else its name, else
// $LOCKSTEP_ENDPOINT, else the only one there is (the one that runs, if several have left logs).
// One whose start has failed has a directory and no processes. For any other an error that says
// where to look.
StatusOr<ClusterRecord> FindLogs(const std::string& endpoint, const std::string& name);

struct LogSource {
  std::string name;  // "controller", "worker-2"
  std::string path;
};

// The controller's, then the workers' by rank; of one of them alone if `rank` or `controller` says
// so. What is a worker of another host is here as well. kInvalidArgument: there is no such rank.
StatusOr<std::vector<LogSource>> SourcesOf(const ClusterRecord& cluster, std::optional<Rank> rank,
                                           bool controller);

}  // namespace lockstep::cli
