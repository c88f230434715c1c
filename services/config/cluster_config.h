// The configuration of a whole cluster on one host: `lockstep up CLUSTER.yaml`.
//
//     cluster: demo
//     workers: 4
//     controller: {heartbeat_interval: 200ms}
//     worker: {arena_bytes: 4GiB, module_path: [modules]}
//     ranks:
//       0: {arena_bytes: 16GiB}
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "services/config/service_config.h"

namespace lockstep::config {

struct ClusterOptions {
  ClusterOptions();

  std::string cluster = "lockstep";
  int workers = 4;
  // `cluster` and `workers` are filled in. An endpoint that is empty is chosen by whoever starts
  // the processes: sockets in the run directory.
  controller::ControllerOptions controller;
  // What every worker starts from.
  worker::WorkerOptions worker;
  // One for each rank, its `cluster` and `rank` filled in: `worker` with that rank's own settings.
  std::vector<worker::WorkerOptions> ranks;
};

// The table, without `ranks.N`, whose rows are those of `worker`.
Settings ClusterSettings(ClusterOptions& options);

// kInvalidArgument with all problems, one a line.
StatusOr<ClusterOptions> LoadCluster(const Sources& sources);

// What a file configures, by the keys in it.
enum class FileKind { kCluster, kController, kWorker };
std::string_view Name(FileKind kind);  // "cluster", "controller", "worker"
StatusOr<FileKind> ParseFileKind(std::string_view name);
// kInvalidArgument if it has no key of any kind.
StatusOr<FileKind> GuessFileKind(const std::string& path);

// Loads the file as `kind` and drops the result.
Status ValidateFile(FileKind kind, const std::string& path);

// The table of `kind`, for documentation: its rows must neither store nor show.
Settings Describe(FileKind kind);

}  // namespace lockstep::config
