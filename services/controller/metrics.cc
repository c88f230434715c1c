#include "services/controller/metrics.h"

#include <algorithm>

#include <prometheus/text_serializer.h>

#include "runtime/control/host.h"

namespace lockstep::controller {
namespace {

// The controller's thread looks at its timers several times a second, whatever happens.
constexpr std::chrono::milliseconds kLongestLook{10'000};

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

}  // namespace

Metrics::Metrics(const ControllerOptions& options)
    : sessions_(AddGauge("lockstep_sessions", "Sessions that are open.")),
      flow_window_bytes_(
          AddGauge("lockstep_flow_window_bytes",
                   "Most bytes of one session's commands on their way to the slowest worker; a "
                   "client that is ahead by more waits (flow_window_bytes).")),
      flow_under_way_bytes_(
          AddGauge("lockstep_flow_under_way_bytes",
                   "Bytes of all sessions' commands that the slowest worker has yet to execute.")),
      flow_under_way_max_bytes_(
          AddGauge("lockstep_flow_under_way_max_bytes",
                   "The same of the one session that has most; near the window, it is slowed "
                   "down.")) {
  for (const auto state :
       {Membership::State::kMissing, Membership::State::kWaiting, Membership::State::kJoining,
        Membership::State::kReady, Membership::State::kLost}) {
    workers_[state] =
        &AddGauge("lockstep_workers", "Ranks of the world, by the state of their worker.",
                  {{"state", Name(state)}});
  }
  AddGauge("lockstep_build_info", "1; the labels say which build this is.",
           {{"version", control::kBuildVersion}})
      .Set(1);
  flow_window_bytes_.Set(static_cast<double>(options.flow_window_bytes));
}

prometheus::Gauge& Metrics::AddGauge(const char* name, const char* help,
                                     const prometheus::Labels& labels) {
  // The same family again for other labels.
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels);
}

void Metrics::Observe(const Membership& membership, const SessionTable& sessions) {
  std::map<Membership::State, int> counts;
  for (Rank rank = 0; rank < membership.size(); ++rank) ++counts[membership.member(rank).state];
  for (const auto& [state, gauge] : workers_) gauge->Set(counts[state]);
  sessions_.Set(static_cast<double>(sessions.all().size()));
  uint64_t sum = 0;
  uint64_t most = 0;
  for (const auto& [id, session] : sessions.all()) {
    sum += session.UnderWay();
    most = std::max(most, session.UnderWay());
  }
  flow_under_way_bytes_.Set(static_cast<double>(sum));
  flow_under_way_max_bytes_.Set(static_cast<double>(most));
  const Status whole = membership.Whole();
  std::lock_guard lock(mutex_);
  ready_ = whole.code();
  ready_text_ = Message(whole);
  observed_ = Deadline::Clock::now();
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

Status Metrics::Healthy() const {
  std::lock_guard lock(mutex_);
  const auto silence =
      std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - observed_);
  if (silence < kLongestLook) return OkStatus();
  return Unavailable("the controller's thread has not looked at its timers for ", silence.count(),
                     " ms");
}

Status Metrics::Ready() const {
  std::lock_guard lock(mutex_);
  return Status(ready_, ready_text_);
}

}  // namespace lockstep::controller
