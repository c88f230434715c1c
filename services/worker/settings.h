// The worker's settings: the table that its configuration is read and checked by.
//
// A setting is a field in options.h and a row here.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "services/config/settings.h"
#include "services/worker/options.h"

namespace lockstep::worker {

// The table. `options` is borrowed: it outlives the result.
config::Settings WorkerSettings(WorkerOptions& options);
// The same for help and documentation, of no options: its rows neither store nor show.
config::Settings DescribeSettings();

// Reports a key without the controller's, and the other way round, where `entries` give it; their
// keys have `prefix` in front.
void CheckKeys(const WorkerOptions& options, const std::vector<config::Entry>& entries,
               const std::string& prefix, config::Problems& problems);

// kInvalidArgument with all problems, one a line.
StatusOr<WorkerOptions> LoadOptions(const config::Sources& sources);

// A file that LoadOptions() reads back as the same options.
std::string ToYaml(const WorkerOptions& options);

}  // namespace lockstep::worker
