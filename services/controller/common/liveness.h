// The workers' liveness, as the controller's parts see it. world/liveness_monitor.h is the real
// one.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/worker_report.h"

namespace lockstep::controller {

// What a worker does, and when it was heard last.
struct LastHeard {
  WorkerActivity activity;
  // True: read in its memory, so it is what the worker does now, or did when it ended. False: what
  // it said when it was heard last.
  bool is_present = false;
  std::chrono::milliseconds heartbeat_age{0};
};

// One watching of one worker: a rank whose worker has left may be watched again, for the next one.
using WatchId = StrongId<struct WatchIdTag, uint64_t>;

struct WorkerLoss {
  Rank rank = 0;
  WatchId watch;
  std::string reason;
  LastHeard last;
  // What may be behind it, for one who looks for the cause; empty: nothing is known.
  std::string hint = {};
  // The same, if it points to the cause rather than away from one.
  std::string likely_cause = {};
  // Nobody has seen its process end: it may be there, stopped, or out of reach.
  bool may_live = false;
  // It is here again, and asks for its rank.
  bool comes_back = false;
  // It did not leave in order, so its log may have more.
  bool log_tells = false;
};

// A worker's answer to a probe, or to AskRegisters().
struct WorkerReport {
  uint64_t probe = 0;
  Rank rank = 0;
  control::Frame frame;  // a LivenessMessage with the report, which can be read
};

// A worker's answer to a client that fetches what it has recorded for a timeline.
struct FetchedTrace {
  Rank rank = 0;
  uint64_t trace = 0;
  uint64_t request = 0;
  std::string problem;  // why there is nothing; empty: there is a body
  control::Frame body;
};

// Orders reach the workers in the order in which they are given here, but beside the batches
// (outbox.h): whichever of the two was given first, an order may arrive before a batch or after it.
// So what is aborted is named by generation and command. None waits.
class Liveness {
 public:
  virtual ~Liveness() = default;

  // `rank` has asked to join, and is expected to show signs of life now and then. `pid` is watched
  // too if it is a process of this host (same `host_id`) and not this one. What it does is read in
  // the segment `activity`, where that is on this host.
  virtual WatchId Watch(Rank rank, const std::string& host_id, int pid,
                        const std::string& activity) = 0;
  // A sign of life that came another way.
  virtual void NoteAlive(Rank rank) = 0;
  // `rank` is welcome, and sends heartbeats from now on.
  virtual void ExpectHeartbeats(Rank rank) = 0;
  // `rank` is not expected to live any more.
  virtual void Forget(Rank rank) = 0;
  // `rank` is lost for a reason that was found elsewhere; TakeLosses() does not tell. Should it
  // live, it is told to end.
  virtual WorkerLoss GiveUp(Rank rank, const std::string& reason) = 0;
  // All that are lost and were not taken before: their processes have ended, or they are silent.
  virtual std::vector<WorkerLoss> TakeLosses() = 0;
  virtual LastHeard LastHeardOf(Rank rank) const = 0;

  // Tells all workers, or that of `only`, that the session's work of this generation is aborted,
  // from a command on (0: all of it).
  virtual void Abort(SessionId session, Generation generation, uint64_t from_command,
                     const control::RemoteError& cause, std::optional<Rank> only = {}) = 0;
  // Tells all workers that none is to wait for the world of `epoch`, which has lost a worker.
  virtual void BreakWorld(Epoch epoch) = 0;
  // Asks all workers what they are doing.
  virtual void Probe(uint64_t probe) = 0;
  // Asks one rank, or all (-1), what registers hold, of one session, or of all (0); `most` of them
  // by each rank.
  virtual void AskRegisters(uint64_t probe, Rank rank, SessionId session, uint32_t most) = 0;
  // Sends a LivenessMessage to all workers, or to that of `only`.
  virtual void Tell(control::Frame frame, std::optional<Rank> only = {}) = 0;
};

// Whether workers can be connected to where they say that others reach them. world/reach_back.h is
// the real one.
class Reachability {
 public:
  virtual ~Reachability() = default;

  // What trying the endpoint came to; nothing: that is not known yet, it is being tried. OK is told
  // once, and so is true of the worker that asks now: later ones are tried anew. kUnavailable says
  // what was tried, and what happened; it is tried again. Only tcp:// endpoints can be out of
  // reach.
  virtual std::optional<Status> Ask(const std::string& endpoint) = 0;
};

}  // namespace lockstep::controller
