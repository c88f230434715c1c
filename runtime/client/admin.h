// Looking at a cluster and stopping it, without a session.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace lockstep {

enum class WorkerState { kMissing, kJoining, kReady, kLost };
std::string_view Name(WorkerState state);  // "missing", "joining", "ready", "lost"

struct WorkerStatus {
  Rank rank = 0;
  WorkerState state = WorkerState::kMissing;
  std::string host;
  int pid = 0;
  std::string device;
  std::string backend;  // "shm"; empty before it is ready
  // Progress since the worker's start.
  uint64_t received = 0;   // batches taken from the command socket
  uint64_t launched = 0;   // commands begun
  uint64_t completed = 0;  // commands finished
  std::chrono::milliseconds heartbeat_age{0};
  std::string reason;  // why it is lost
};

struct SessionStatus {
  SessionId session;
  std::string name;
  std::string host;
  int pid = 0;
  int num_groups = 1;
  uint64_t sent_bytes = 0;      // bodies sent to the workers
  uint64_t consumed_bytes = 0;  // executed by the slowest worker
  std::string error;            // the first cause if the session has failed
  bool closing = false;  // closed, or its client is lost, and some worker has yet to execute that
};

struct ClusterStatus {
  std::string cluster;
  std::string build;
  Epoch epoch;
  int controller_pid = 0;
  std::chrono::milliseconds uptime{0};
  uint64_t batches = 0;  // ordered so far
  std::vector<WorkerStatus> workers;
  std::vector<SessionStatus> sessions;

  bool IsReady() const;  // every worker is ready
};

// Asks the controller at `endpoint`. kUnavailable if nobody answers within `timeout`.
StatusOr<ClusterStatus> GetClusterStatus(const std::string& endpoint,
                                         std::chrono::milliseconds timeout);

// Asks the controller to stop the whole cluster; returns when it has agreed to.
Status ShutdownCluster(const std::string& endpoint, const std::string& reason,
                       std::chrono::milliseconds timeout);

}  // namespace lockstep
