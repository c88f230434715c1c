// The configuration of a whole cluster: `lockstep up CLUSTER.yaml`.
//
//     cluster: demo
//     workers: 4
//     controller: {heartbeat_interval: 200ms}
//     worker: {arena_bytes: 4GiB, module_path: [modules]}
//     ranks:
//       0: {arena_bytes: 16GiB}
//
// Its workers run on this host, or where `hosts` says (hosts.h).
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "services/config/settings.h"
#include "services/controller/options.h"
#include "services/local/hosts.h"
#include "services/worker/options.h"

namespace lockstep::local {

struct ClusterOptions {
  ClusterOptions();

  std::string cluster = "lockstep";
  int workers = 4;
  // Where the workers run, in the order of their ranks; loading fills it in. A rank that none of
  // these has runs on this host.
  std::vector<HostOptions> hosts;
  // What runs a command on another host: the host and the command line are appended.
  std::vector<std::string> ssh;
  // The worker's program there, unless its host has another.
  std::string remote_program = HostOptions().program;
  // A file with an operator's secret key, by which the program that starts the processes asks
  // the controller how they are, where that asks for keys. Empty: those keys are made at the start.
  std::string operator_key;
  // `cluster` and `workers` are filled in. An endpoint that is empty is chosen when the
  // processes are started: sockets in the run directory, or what other hosts reach.
  controller::ControllerOptions controller;
  // What every worker starts from.
  worker::WorkerOptions worker;
  // One for each rank, its `cluster` and `rank` filled in: `worker` with that rank's own settings.
  std::vector<worker::WorkerOptions> ranks;

  const HostOptions& HostOf(int rank) const;
  // False if all workers run on this host.
  bool HasOtherHosts() const;
  // True if other hosts reach the controller.
  bool NeedsKeys() const;
};

// All of it, a setting on each line: "workers: 4", ..., "ranks.1.arena_bytes: 16GiB" where a rank
// has its own. Equal for equal options. For comparing: it is no file for LoadCluster(), and may
// contain secrets.
std::string ToText(const ClusterOptions& options);

// The table, without `hosts[N]` and `ranks.N`, whose rows are those of `worker` and HostSettings().
config::Settings ClusterSettings(ClusterOptions& options);

// True for an entry of `hosts` or `ranks`.
bool IsForHostsOrRanks(const config::Entry& entry);

// kInvalidArgument with all problems, one a line.
StatusOr<ClusterOptions> LoadCluster(const config::Sources& sources);

}  // namespace lockstep::local
