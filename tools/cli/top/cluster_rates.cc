#include "tools/cli/top/cluster_rates.h"

#include <algorithm>
#include <utility>

#include "runtime/client/admin.h"

namespace lockstep::cli {
namespace {

using Seconds = std::chrono::duration<double>;

uint64_t Increase(uint64_t before, uint64_t after) {
  return after >= before ? after - before : after;
}

// Up to now, with the collective that is under way.
std::chrono::nanoseconds InCollectives(const WorkerActivity& activity) {
  const bool is_in_one = activity.kind == WorkerActivity::Kind::kCollective;
  return activity.in_collectives + (is_in_one ? activity.since : std::chrono::milliseconds(0));
}

WorkerRates RatesOf(const WorkerStatus& before, const WorkerStatus& after,
                    const ClusterRates& cluster) {
  WorkerRates rates;
  const WorkerActivity& then = before.activity;
  const WorkerActivity& now = after.activity;
  // Another worker has the rank.
  const bool is_another = now.completed < then.completed;
  const WorkerActivity none;
  const WorkerActivity& from = is_another ? none : then;
  rates.commands = static_cast<double>(now.completed - from.completed) / cluster.seconds;
  rates.collectives =
      static_cast<double>(Increase(from.collectives, now.collectives)) / cluster.seconds;
  rates.bus_bytes = static_cast<double>(Increase(from.bus_bytes, now.bus_bytes)) / cluster.seconds;
  const double in_collectives = Seconds(InCollectives(now) - InCollectives(from)).count();
  rates.collective_share = std::clamp(in_collectives / cluster.seconds, 0.0, 1.0);
  const uint64_t times = Increase(before.times_last, after.times_last);
  if (times > 0 && cluster.compared > 0) {
    rates.last_share =
        std::min(static_cast<double>(times) / static_cast<double>(cluster.compared), 1.0);
    const bool starts_again = after.late_by < before.late_by;
    const auto late = starts_again ? after.late_by : after.late_by - before.late_by;
    rates.late = late / static_cast<int64_t>(times);
  }
  return rates;
}

}  // namespace

ClusterRates RatesBetween(const Sample& before, const Sample& after) {
  ClusterRates rates;
  rates.seconds = Seconds(after.taken - before.taken).count();
  rates.workers.resize(after.status.workers.size());
  rates.sessions.resize(after.status.sessions.size());
  for (size_t i = 0; i < rates.workers.size(); ++i) {
    const WorkerStatus& worker = after.status.workers[i];
    if (worker.state != WorkerState::kReady) continue;
    const uint64_t taken = std::min(worker.activity.received, after.status.batches);
    rates.workers[i].waiting_batches = after.status.batches - taken;
  }
  if (rates.seconds <= 0) return rates;
  rates.batches =
      static_cast<double>(Increase(before.status.batches, after.status.batches)) / rates.seconds;
  rates.compared = Increase(before.status.compared_collectives, after.status.compared_collectives);
  for (size_t i = 0; i < rates.workers.size() && i < before.status.workers.size(); ++i) {
    const uint64_t waiting = rates.workers[i].waiting_batches;
    rates.workers[i] = RatesOf(before.status.workers[i], after.status.workers[i], rates);
    rates.workers[i].waiting_batches = waiting;
  }
  for (size_t i = 0; i < rates.sessions.size(); ++i) {
    const SessionStatus& now = after.status.sessions[i];
    const auto then =
        std::find_if(before.status.sessions.begin(), before.status.sessions.end(),
                     [&](const SessionStatus& session) { return session.session == now.session; });
    // One that was opened between the two has sent everything since.
    const SessionStatus none;
    const SessionStatus& from = then == before.status.sessions.end() ? none : *then;
    rates.sessions[i] = {
        static_cast<double>(Increase(from.commands, now.commands)) / rates.seconds,
        static_cast<double>(Increase(from.sent_bytes, now.sent_bytes)) / rates.seconds};
  }
  return rates;
}

Sampler::~Sampler() {
  cancel_.Signal();
  if (thread_.joinable()) thread_.join();
}

void Sampler::Start() {
  is_done_ = false;
  thread_ = std::thread([this] {
    StatusOr<ClusterStatus> status = GetClusterStatus(controller_, timeout_, cancel_.fd());
    if (status.ok()) {
      sample_ = Sample{*std::move(status), std::chrono::steady_clock::now()};
    } else {
      sample_ = status.status();
    }
    is_done_ = true;
  });
}

std::optional<StatusOr<Sample>> Sampler::Take() {
  if (!is_done_) return std::nullopt;
  thread_.join();
  return std::exchange(sample_, std::nullopt);
}

}  // namespace lockstep::cli
