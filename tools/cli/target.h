// Which cluster a command is about, and the session that `call` and `run` open there.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "runtime/client/worker_output.h"
#include "services/local/local_cluster.h"
#include "tools/cli/command_line.h"
#include "tools/cli/common_options.h"

namespace lockstep::cli {

struct TargetOptions {
  std::string endpoint;  // --connect
  std::string name;      // --name
  KeyOptions keys;
  double timeout_seconds = 2;
  std::chrono::milliseconds timeout() const {
    return std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  }
};

// --connect, --name, --timeout, and those of KeyOptions.
void AddTargetOptions(Command command, TargetOptions& options);

// --connect; else the cluster of --name; else $LOCKSTEP_ENDPOINT; else the only one that runs on
// this host; else the one called "lockstep". Exit code 3 if there is none, with what to do about
// it.
StatusOr<ControllerAddress> ResolveController(const TargetOptions& options);

// The cluster's status. Exit code 3 if no controller answers, or it does not let us in.
StatusOr<ClusterStatus> QueryCluster(const ControllerAddress& controller,
                                     const TargetOptions& options);

// The same, with what every worker is doing at this moment.
StatusOr<ClusterStatus> QueryWhy(const ControllerAddress& controller, const TargetOptions& options);

// What registers hold, on the ranks that tell. The same errors.
StatusOr<std::vector<RankRegisters>> QueryRegisters(const ControllerAddress& controller,
                                                    const RegisterQuestion& question,
                                                    const TargetOptions& options);

// Ends a session. The same errors, and those of EndSession().
Status QueryEnd(const ControllerAddress& controller, SessionId session, const std::string& reason,
                const TargetOptions& options);

// Where `call` and `run` execute: on a cluster, or on one inside this process.
struct SessionTarget {
  TargetOptions cluster;
  bool embedded = false;
  std::optional<int> workers;            // --embedded only; 4 if not given
  std::vector<std::string> module_path;  // --embedded only
};

// The above, --embedded, --workers and --module-path.
void AddSessionOptions(Command command, SessionTarget& target);

// A session, and the embedded cluster that it needs, if any. Closes both, the session first.
struct OpenSession {
  std::unique_ptr<local::LocalCluster> cluster;
  std::optional<Session> session;
  std::optional<ControllerAddress> controller;  // none: the cluster is embedded
};

// Ends the session of a command that ^C has interrupted.
Status EndInterruptedSession(const ControllerAddress& controller, SessionId session);

// `options.endpoint` is filled in. Exit code 3 if no controller answers.
StatusOr<OpenSession> Open(const SessionTarget& target, SessionOptions options);

// What functions print on the workers: shown by `call` and `run`, or left to the workers' logs.
enum class WorkerOutputChoice { kForward, kLog };

// --worker-output forward|log.
void AddWorkerOutputOption(Command command, WorkerOutputChoice& choice);

// For SessionOptions::on_output. Where standard output is a JSON document, all goes to standard
// error.
OutputCallback WorkerOutputPrinter(WorkerOutputChoice choice, OutputFormat format);

}  // namespace lockstep::cli
