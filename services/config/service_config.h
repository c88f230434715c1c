// The configuration of one controller or one worker process.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "services/config/settings.h"
#include "services/controller/options.h"
#include "services/worker/options.h"

namespace lockstep::config {

// Most workers of a cluster.
inline constexpr int kMaxWorkers = 4096;

// The tables. `options` is borrowed: it outlives the result.
Settings ControllerSettings(controller::ControllerOptions& options);
Settings WorkerSettings(worker::WorkerOptions& options);

// True if what its rank exchanges with others, which nobody encrypts, may leave its host.
bool MayUseNetworks(const worker::WorkerOptions& options);
// True if other hosts may reach some endpoint of the controller.
bool NeedsKeys(const controller::ControllerOptions& options);

// What no single setting can check, such as two durations that contradict each other. A problem is
// reported where `entries` give one of the settings; their keys have `prefix` in front.
void CheckController(const controller::ControllerOptions& options,
                     const std::vector<Entry>& entries, const std::string& prefix,
                     Problems& problems);
void CheckControllerKeys(const controller::ControllerOptions& options,
                         const std::vector<Entry>& entries, const std::string& prefix,
                         Problems& problems);
void CheckWorker(const worker::WorkerOptions& options, const std::vector<Entry>& entries,
                 const std::string& prefix, Problems& problems);

// kInvalidArgument with all problems, one a line.
StatusOr<controller::ControllerOptions> LoadController(const Sources& sources);
StatusOr<worker::WorkerOptions> LoadWorker(const Sources& sources);

// Files that Load...() reads back as the same options.
std::string ToYaml(const controller::ControllerOptions& options);
std::string ToYaml(const worker::WorkerOptions& options);

}  // namespace lockstep::config
