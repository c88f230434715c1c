// The controller's settings: the table that its configuration is read and checked by.
//
// A setting is a field in options.h and a row here.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "services/config/settings.h"
#include "services/controller/options.h"

namespace lockstep::controller {

// The table. `options` is borrowed: it outlives the result.
config::Settings ControllerSettings(ControllerOptions& options);
// The same for help and documentation, of no options: its rows neither store nor show.
config::Settings DescribeSettings();

// True if other hosts may reach some endpoint of the controller.
bool NeedsKeys(const ControllerOptions& options);

// What no single setting can check, such as two durations that contradict each other. A problem is
// reported where `entries` give one of the settings; their keys have `prefix` in front.
void CheckTimes(const ControllerOptions& options, const std::vector<config::Entry>& entries,
                const std::string& prefix, config::Problems& problems);
void CheckKeys(const ControllerOptions& options, const std::vector<config::Entry>& entries,
               const std::string& prefix, config::Problems& problems);

// kInvalidArgument with all problems, one a line.
StatusOr<ControllerOptions> LoadOptions(const config::Sources& sources);

// A file that LoadOptions() reads back as the same options.
std::string ToYaml(const ControllerOptions& options);

}  // namespace lockstep::controller
