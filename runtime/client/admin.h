// Looking at a cluster and stopping it, without a session.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/control/channel.h"
#include "runtime/control/worker_report.h"

namespace lockstep {

enum class WorkerState { kMissing, kJoining, kReady, kLost };
std::string_view Name(WorkerState state);  // "missing", "joining", "ready", "lost"

struct WorkerStatus {
  Rank rank = 0;
  WorkerState state = WorkerState::kMissing;
  std::string host;
  int pid = 0;
  std::string device;
  std::string metrics_endpoint;  // where it serves metrics and health; empty: nowhere
  std::string backend;           // "shm", "tcp", "shm+mpi"; empty before it is ready
  bool by_ring = false;          // commands reach it through memory shared with the controller
  bool by_relay = false;         // ... or from another worker
  std::string connection;   // why that one; before it is ready: what is in the way, if anything is
  WorkerActivity activity;  // what it is doing; of a lost worker: what it was doing last
  std::chrono::milliseconds heartbeat_age{0};
  std::string reason;     // why it is lost
  bool may_live = false;  // ... although nobody has seen its process end
  // It lives, but has been executing one command of its own for longer than `stuck_after`, and for
  // more than twice as long as its function is known to take.
  bool stuck = false;
  // The longest that the function which it executes is known to have taken before, on any rank; 0:
  // it is not known.
  std::chrono::milliseconds longest_before{0};
  // To collectives that all members leave together.
  uint64_t times_last = 0;              // that it came last, ...
  std::chrono::nanoseconds late_by{0};  // ... and how long after the first, added up

  // From ExplainCluster() alone.
  bool reported = false;           // it has answered
  std::vector<std::string> stack;  // of the thread that executes, innermost frame first
  std::string no_stack;            // why there is none although it executes something
};

struct SessionStatus {
  SessionId session;
  std::string name;
  std::string host;
  int pid = 0;
  int num_groups = 1;
  uint64_t sent_bytes = 0;      // bodies sent to the workers
  uint64_t consumed_bytes = 0;  // executed by the slowest worker
  std::string error;            // the first cause if the session has failed, and who failed alike
  bool closing = false;  // closed, or its client is lost, and some worker has yet to execute that
  std::optional<std::chrono::milliseconds> aborted;  // while closing: since its work was aborted
  uint32_t generation = 0;                           // how often it was reset
  uint64_t commands = 0;                             // sent to the workers
  bool broken = false;                               // with an error that no reset mends
  bool detached = false;                             // without a client; another may attach ...
  std::chrono::milliseconds kept{0};                 // ... for as long as this
  bool client_lost = false;                          // detached because its client fell silent
  std::chrono::milliseconds age{0};                  // since this controller knows it
  std::chrono::milliseconds silent{0};               // since its client was heard last
  // How messages reach its client: "socket", "ring" (memory shared with the controller) or "direct"
  // (it is in the controller's process).
  std::string path;
};

struct ClusterStatus {
  std::string cluster;
  std::string build;
  Epoch epoch;
  int controller_pid = 0;
  std::chrono::milliseconds uptime{0};
  uint64_t batches = 0;               // ordered so far
  std::string metrics_endpoint;       // the controller's; empty: it has none
  uint64_t compared_collectives = 0;  // of which it is known who came last
  std::string replacement_hint;       // see HowToReplace(); empty: none
  std::vector<WorkerStatus> workers;
  std::vector<SessionStatus> sessions;

  bool IsReady() const;  // every worker is ready
  std::vector<Rank> LostRanks() const;
  // The session that has ended, and of which `worker` still executes a command that was aborted
  // with it: all sessions wait for that. Null: it executes no such command.
  const SessionStatus* EndedSessionOf(const WorkerStatus& worker) const;
};

// Asks the controller. kUnavailable if no controller answers within `timeout`; kPermissionDenied if
// it does not let us in; kCancelled once `cancel_fd` is readable (-1: none).
StatusOr<ClusterStatus> GetClusterStatus(const ControllerAddress& controller,
                                         std::chrono::milliseconds timeout, int cancel_fd = -1);

// As GetClusterStatus, but every worker is asked what it is doing at this moment, and for its
// stack. Takes up to a second longer if one does not answer.
StatusOr<ClusterStatus> ExplainCluster(const ControllerAddress& controller,
                                       std::chrono::milliseconds timeout);

// Asks the controller to stop the whole cluster; returns when it has agreed to. kPermissionDenied
// for a key that is no operator's.
Status ShutdownCluster(const ControllerAddress& controller, const std::string& reason,
                       std::chrono::milliseconds timeout);

// Ends a session, whatever its client does: its work is aborted, and its client told `reason`.
// Returns when the controller has begun with it. kNotFound: there is no such session;
// kPermissionDenied for another's session, unless with an operator's key.
Status EndSession(const ControllerAddress& controller, SessionId session, const std::string& reason,
                  std::chrono::milliseconds timeout);

namespace client {

// kUnavailable: the cluster is shutting down; kInvalidArgument, kInternal: this is no status.
StatusOr<ClusterStatus> ReadClusterStatus(const control::Message& answer);

}  // namespace client

struct RegisterQuestion {
  SessionId session;    // of this one alone; none: of all
  Rank rank = -1;       // on this one alone; -1: on all
  uint32_t most = 256;  // registers that each rank tells of; the controller may lower it
};

// What one rank has told.
struct RankRegisters {
  Rank rank = 0;
  std::string why;                        // why it has not; empty: it has
  WorkerActivity activity;                // what it was doing, if that is why
  std::vector<SessionHoldings> sessions;  // by id
};

// In rank order. A rank that is busy with a long command does not tell what it holds. kNotFound:
// the session is not open; kInvalidArgument: there is no such rank; kUnavailable if no controller
// answers within `timeout`; kPermissionDenied if the controller does not let us in.
StatusOr<std::vector<RankRegisters>> ListRegisters(const ControllerAddress& controller,
                                                   const RegisterQuestion& question,
                                                   std::chrono::milliseconds timeout);

namespace client {

// The answer, for ListRegisters() and for tests.
StatusOr<std::vector<RankRegisters>> ReadRegisterListing(const control::Message& answer);

}  // namespace client

}  // namespace lockstep
