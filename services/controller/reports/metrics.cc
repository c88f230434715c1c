#include "services/controller/reports/metrics.h"

#include <algorithm>
#include <chrono>

#include "runtime/base/version.h"
#include "services/metrics/counters.h"

namespace lockstep::controller {
namespace {

// The controller's thread looks at its timers several times a second, whatever happens.
constexpr std::chrono::milliseconds kLongestLook{10'000};

constexpr Membership::State kStates[] = {Membership::State::kMissing, Membership::State::kWaiting,
                                         Membership::State::kJoining, Membership::State::kReady,
                                         Membership::State::kLost};

const char* Name(Membership::State state) {
  switch (state) {
    case Membership::State::kMissing:
      return "missing";
    case Membership::State::kWaiting:
      return "waiting";
    case Membership::State::kJoining:
      return "joining";
    case Membership::State::kReady:
      return "ready";
    case Membership::State::kLost:
      return "lost";
  }
  return "unknown";
}

template <typename Number>
double Value(Number number) {
  return static_cast<double>(number);
}
double Value(const metrics::Counter& counter) { return static_cast<double>(counter.value()); }

}  // namespace

Metrics::Metrics(const ControllerOptions& options, const Clock& clock)
    : clock_(clock),
      flow_window_bytes_(options.flow_window_bytes),
      skew_(options.workers),
      observed_(clock.Now()) {}

void Metrics::Observe(const ClusterView& view) {
  const TimePoint now = clock_.Now();
  std::map<Membership::State, int> states;
  std::vector<Worker> workers;
  for (Rank rank = 0; rank < view.membership.size(); ++rank) {
    const auto i = static_cast<size_t>(rank);
    const Membership::State state = view.membership.member(rank).state;
    ++states[state];
    Worker& worker = workers.emplace_back();
    if (i >= view.heard.size()) continue;
    worker.activity = view.heard[i].activity;
    if (state != Membership::State::kMissing && state != Membership::State::kLost) {
      worker.heard = now - view.heard[i].heartbeat_age;
    }
    worker.is_stuck = i < view.stuck.size() && view.stuck[i];
    if (state == Membership::State::kReady) {
      worker.queued = view.batches - std::min(view.batches, worker.activity.received);
    }
  }
  const Status whole = view.membership.Whole();
  std::lock_guard lock(mutex_);
  states_ = std::move(states);
  workers_ = std::move(workers);
  sessions_ = view.sessions.all().size();
  failed_sessions_ = 0;
  under_way_bytes_ = most_under_way_bytes_ = 0;
  for (const auto& [id, session] : view.sessions.all()) {
    if (!session.failure.ok()) ++failed_sessions_;
    under_way_bytes_ += session.commands.UnderWay();
    most_under_way_bytes_ = std::max(most_under_way_bytes_, session.commands.UnderWay());
  }
  batches_ = view.batches;
  epoch_ = view.epoch;
  ready_ = whole.code();
  ready_text_ = Message(whole);
  observed_ = now;
}

void Metrics::TellSessions(metrics::Families& families) const {
  families.Gauge("lockstep_sessions", "Sessions that are open.", Value(sessions_));
  families.Gauge("lockstep_sessions_failed", "Sessions that have failed, and were not reset since.",
                 Value(failed_sessions_));
  families.Gauge("lockstep_flow_window_bytes",
                 "Most bytes of one session's commands on their way to the slowest worker; a "
                 "client that is ahead by more waits (flow_window_bytes).",
                 Value(flow_window_bytes_));
  families.Gauge("lockstep_flow_under_way_bytes",
                 "Bytes of all sessions' commands that the slowest worker has yet to execute.",
                 Value(under_way_bytes_));
  families.Gauge("lockstep_flow_under_way_max_bytes",
                 "The same of the one session that has most; near the window, it is slowed down.",
                 Value(most_under_way_bytes_));
}

void Metrics::TellWorkers(metrics::Families& families) const {
  for (const Membership::State state : kStates) {
    const auto found = states_.find(state);
    families.Gauge("lockstep_workers", "Ranks of the world, by the state of their worker.",
                   found == states_.end() ? 0 : found->second, {{"state", Name(state)}});
  }
  const TimePoint now = clock_.Now();
  const auto each = [&](const auto& tell) {
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      tell(workers_[rank], metrics::Families::Labels{{"rank", std::to_string(rank)}});
    }
  };
  each([&](const Worker& worker, auto labels) {
    if (worker.heard == TimePoint()) return;
    families.Gauge("lockstep_rank_heartbeat_age_seconds",
                   "Time since the rank's worker was heard; none of one that is missing or lost.",
                   std::chrono::duration<double>(now - worker.heard).count(), std::move(labels));
  });
  each([&](const Worker& worker, auto labels) {
    families.Counter("lockstep_rank_received_batches_total",
                     "Place in the order of the last batch that the rank has taken.",
                     Value(worker.activity.received), std::move(labels));
  });
  each([&](const Worker& worker, auto labels) {
    families.Counter("lockstep_rank_launched_commands_total", "Commands that the rank has begun.",
                     Value(worker.activity.launched), std::move(labels));
  });
  each([&](const Worker& worker, auto labels) {
    families.Counter("lockstep_rank_completed_commands_total",
                     "Commands that the rank has finished, failed or skipped.",
                     Value(worker.activity.completed), std::move(labels));
  });
  each([&](const Worker& worker, auto labels) {
    families.Gauge("lockstep_rank_queued_batches",
                   "Batches that were ordered and that the rank has not taken yet.",
                   Value(worker.queued), std::move(labels));
  });
  each([&](const Worker& worker, auto labels) {
    families.Gauge("lockstep_rank_stuck",
                   "1 if the rank has executed one command of its own for longer than stuck_after.",
                   worker.is_stuck ? 1 : 0, std::move(labels));
  });
}

void Metrics::TellCounts(metrics::Families& families) const {
  families.Counter("lockstep_sessions_opened_total", "Sessions that were opened.",
                   Value(counts_.sessions_opened));
  families.Counter("lockstep_sessions_resumed_total",
                   "Sessions that their clients have resumed after the controller was lost.",
                   Value(counts_.sessions_resumed));
  families.Counter("lockstep_sessions_attached_total",
                   "Sessions that another client has attached to.",
                   Value(counts_.sessions_attached));
  families.Counter("lockstep_resets_total", "Resets of sessions.", Value(counts_.resets));
  families.Counter("lockstep_aborts_total", "Times that a session's work in flight was aborted.",
                   Value(counts_.aborts));
  for (size_t code = 1; code < metrics::kCodes; ++code) {
    families.Counter("lockstep_errors_total", "Failures of sessions, by the code of their cause.",
                     Value(counts_.errors[code]), {{"code", metrics::NameOf(code)}});
  }
  families.Counter("lockstep_workers_lost_total", "Workers that were welcome and then lost.",
                   Value(counts_.workers_lost));
  families.Counter("lockstep_workers_replaced_total", "Workers that have taken a lost one's rank.",
                   Value(counts_.workers_replaced));
  families.Histogram("lockstep_request_seconds",
                     "From a request's arrival (sync, fetch, store, locate, reset, close) to its "
                     "answer.",
                     counts_.requests);
  const auto each = [&](const auto& tell) {
    tell(counts_.copied_to, metrics::Families::Labels{{"operation", "copy_to_worker"}});
    tell(counts_.copied_from, metrics::Families::Labels{{"operation", "copy_from_worker"}});
  };
  each([&](const CopyCounts& copies, auto labels) {
    families.Counter("lockstep_client_copies_total",
                     "Copies between clients and worker-0 that clients made: through shared "
                     "memory, or of what came with an answer.",
                     Value(copies.operations), std::move(labels));
  });
  each([&](const CopyCounts& copies, auto labels) {
    families.Counter("lockstep_client_copy_bytes_total", "Bytes of these copies.",
                     Value(copies.bytes), std::move(labels));
  });
  each([&](const CopyCounts& copies, auto labels) {
    families.Counter("lockstep_client_copy_seconds_total", "Time that clients spent in them.",
                     Value(copies.nanos) / 1e9, std::move(labels));
  });
}

std::string Metrics::Text() const {
  metrics::Families families;
  families.Gauge("lockstep_build_info", "1; the labels say which build this is.", 1,
                 {{"version", kBuildVersion}});
  {
    std::lock_guard lock(mutex_);
    families.Gauge("lockstep_epoch", "The world's epoch: it grows with every world.",
                   Value(epoch_.value));
    families.Counter("lockstep_ordered_batches_total", "Batches that were put in order.",
                     Value(batches_));
    TellWorkers(families);
    TellSessions(families);
  }
  TellCounts(families);
  skew_.Tell(families);
  return families.Text();
}

Status Metrics::Healthy() const {
  std::lock_guard lock(mutex_);
  const auto silence =
      std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Now() - observed_);
  if (silence < kLongestLook) return OkStatus();
  return Unavailable("the controller's thread has not looked at its timers for ", silence.count(),
                     " ms");
}

Status Metrics::Ready() const {
  std::lock_guard lock(mutex_);
  return Status(ready_, ready_text_);
}

Status Metrics::Idle() const {
  std::lock_guard lock(mutex_);
  return sessions_ == 0 ? OkStatus() : Unavailable("open sessions: ", sessions_);
}

}  // namespace lockstep::controller
