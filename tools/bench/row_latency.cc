// What the median of a busy session does not tell: the slowest syncs of it, those of a session that
// pauses, and what it takes to open one.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "tools/bench/clusters.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 4;
constexpr int kConnections = 10;
constexpr std::chrono::milliseconds kPause{1};
constexpr double kMostMedians = 4;
// Times of a ring whose waits sleep at once.
constexpr double kSleepingRings = 2;
constexpr double kConnectMillis = 5;

// One kind of cluster, with a session that is open all the time.
class Timed {
 public:
  using Connect = std::function<StatusOr<Session>()>;

  Timed(Session session, Connect connect, const std::string& where, Report& report)
      : session_(std::move(session)),
        connect_(std::move(connect)),
        slowest_(report.Add({.row = "latency",
                             .what = "SyncAll, p99 by p50, " + where,
                             .unit = "times",
                             .better = Better::kLess,
                             .goal = Goal::ValueAtMost(kMostMedians)})),
        paused_(report.Add({.row = "latency",
                            .what = "SyncAll after a pause of 1 ms, p50, " + where,
                            .unit = "us",
                            .better = Better::kLess,
                            .goal = Goal::RatioAtLeast(1 / kSleepingRings)})),
        connecting_(report.Add({.row = "latency",
                                .what = "Connect until a session is open, " + where,
                                .unit = "ms",
                                .better = Better::kLess,
                                .goal = Goal::ValueAtMost(kConnectMillis)})) {}

  // `sleeping_ring`: microseconds of the rival in this round.
  Status Measure(std::chrono::milliseconds time, double sleeping_ring) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> busy, TimesOfSyncs(session_, time));
    slowest_.ours.push_back(Percentile(busy, 0.99) / Percentile(busy, 0.5));
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<double> paused, TimesOfSyncs(session_, time, kPause));
    paused_.ours.push_back(Median(std::move(paused)));
    paused_.Rival("ring that sleeps at once").values.push_back(sleeping_ring);
    std::vector<double> millis;
    for (int i = 0; i < kConnections; ++i) {
      const auto start = Clock::now();
      LOCKSTEP_ASSIGN_OR_RETURN(Session session, connect_());
      millis.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
      LOCKSTEP_RETURN_IF_ERROR(session.Close());
    }
    connecting_.ours.push_back(Median(std::move(millis)));
    return OkStatus();
  }

  Status Close() { return session_.Close(); }

 private:
  Session session_;
  const Connect connect_;
  Line& slowest_;
  Line& paused_;
  Line& connecting_;
};

}  // namespace

Status MeasureLatency(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string ring,
                            FindProgram("shared_ring", "LOCKSTEP_SHARED_RING", "tools/bench"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(kWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto services, ServiceCluster::Up(settings, kWorkers));
  const Timed::Connect to_cluster = [&] { return cluster->Connect(); };
  const Timed::Connect to_services = [&] { return services->Connect(); };
  LOCKSTEP_ASSIGN_OR_RETURN(Session first, to_cluster());
  LOCKSTEP_ASSIGN_OR_RETURN(Session second, to_services());
  Timed embedded(std::move(first), to_cluster, "LocalCluster", report);
  Timed service(std::move(second), to_services, "`lockstep up`", report);

  const std::chrono::milliseconds time(settings.quick ? 150 : 400);
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(
        const Numbers memory,
        RunRival({.argv = {ring, std::to_string(kWorkers)}, .scratch = settings.scratch}));
    LOCKSTEP_ASSIGN_OR_RETURN(const double sleeping, Get(memory, "paused_p50_us"));
    LOCKSTEP_RETURN_IF_ERROR(embedded.Measure(time, sleeping));
    LOCKSTEP_RETURN_IF_ERROR(service.Measure(time, sleeping));
  }
  LOCKSTEP_RETURN_IF_ERROR(embedded.Close());
  LOCKSTEP_RETURN_IF_ERROR(service.Close());
  LOCKSTEP_RETURN_IF_ERROR(services->Down());
  return cluster->Stop();
}

}  // namespace lockstep::bench
