// What the controller tells a monitoring system.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/counts.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/membership.h"
#include "services/controller/options.h"
#include "services/controller/reports/skew.h"
#include "services/controller/sessions/session_table.h"
#include "services/metrics/families.h"

namespace lockstep::controller {

// How things stand.
struct ClusterView {
  const Membership& membership;
  const SessionTable& sessions;
  Epoch epoch = Epoch();
  uint64_t batches = 0;               // ordered so far
  std::vector<LastHeard> heard = {};  // by rank
  std::vector<bool> stuck = {};       // the same
};

// Threads: Observe() and the counters belong to the controller's thread, the rest is safe from any.
class Metrics {
 public:
  // *clock must outlive it, and may be asked by any thread.
  Metrics(const ControllerOptions& options, const Clock& clock);

  Counts& counts() { return counts_; }
  Skew& skew() { return skew_; }

  // How things stand now. Called every time that the controller looks at its timers, if they can be
  // asked for.
  void Observe(const ClusterView& view);

  // In Prometheus' text format.
  std::string Text() const;
  // kUnavailable if the controller's thread does not come round any more.
  Status Healthy() const;
  // OK if sessions can be opened; else who is missing.
  Status Ready() const;
  // OK while no session is open.
  Status Idle() const;

 private:
  // What is told of one rank.
  struct Worker {
    WorkerActivity activity;
    TimePoint heard;
    uint64_t queued = 0;
    bool is_stuck = false;
  };

  void TellSessions(metrics::Families& families) const;
  void TellWorkers(metrics::Families& families) const;
  void TellCounts(metrics::Families& families) const;

  const Clock& clock_;
  const uint64_t flow_window_bytes_;
  Counts counts_;
  Skew skew_;

  mutable std::mutex mutex_;  // guards what follows
  std::map<Membership::State, int> states_;
  std::vector<Worker> workers_;  // by rank
  size_t sessions_ = 0;
  size_t failed_sessions_ = 0;
  uint64_t under_way_bytes_ = 0;
  uint64_t most_under_way_bytes_ = 0;
  uint64_t batches_ = 0;
  Epoch epoch_;
  // Not a Status: what it counts its copies with would be shared with the threads that read.
  StatusCode ready_ = StatusCode::kUnavailable;
  std::string ready_text_ = "the controller is starting";
  TimePoint observed_;
};

}  // namespace lockstep::controller
