// What metrics and progress counters cost a no-op call, the command that they weigh most on; and
// what a timeline costs that is recorded.
//
// Two clusters take turns: the workers of one count, those of the other are the same but for that.
// The difference is smaller than what disturbs a single measurement, so a round's number is the
// median of many short turns.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "tools/bench/clusters.h"
#include "tools/bench/program.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr double kCountingGoal = 0.97;

struct Cost {
  double seconds = 0;         // until all workers have executed the calls
  double worker_seconds = 0;  // of processor time, the mean of the workers
};

// A session of no-op calls with a cluster of its own.
class Calls {
 public:
  // `worker_program`: empty for the one that people run.
  static StatusOr<Calls> Start(int workers, const std::string& worker_program) {
    Calls calls;
    LOCKSTEP_ASSIGN_OR_RETURN(calls.cluster_,
                              StartLocalCluster(workers, Way::kUsual, worker_program));
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, calls.cluster_->Connect());
    calls.session_ = std::make_unique<Session>(std::move(session));
    LOCKSTEP_ASSIGN_OR_RETURN(calls.nop_, calls.session_->GetFunction("lockstep.nop"));
    return calls;
  }

  // From now on all record.
  Status StartTrace() { return session_->StartTrace(); }

  StatusOr<Cost> Make(int calls) {
    LOCKSTEP_ASSIGN_OR_RETURN(const double before, WorkerSeconds());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) LOCKSTEP_RETURN_IF_ERROR(session_->Call(nop_).status());
    LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    LOCKSTEP_ASSIGN_OR_RETURN(const double after, WorkerSeconds());
    return Cost{elapsed.count(), after - before};
  }

  Status Stop() {
    nop_ = DRef();
    LOCKSTEP_RETURN_IF_ERROR(session_->Close());
    return cluster_->Stop();
  }

 private:
  StatusOr<double> WorkerSeconds() const {
    double sum = 0;
    for (const pid_t pid : cluster_->worker_pids()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const auto time, CpuTime(pid));
      sum += time.count();
    }
    return sum / static_cast<double>(cluster_->worker_pids().size());
  }

  std::unique_ptr<local::LocalCluster> cluster_;
  std::unique_ptr<Session> session_;
  DRef nop_;
};

// What one of the clusters has taken in the turns of a round.
struct Turns {
  std::vector<double> seconds;
  std::vector<double> worker_seconds;

  Status Take(Calls& cluster, int calls) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Cost cost, cluster.Make(calls));
    seconds.push_back(cost.seconds);
    worker_seconds.push_back(cost.worker_seconds);
    return OkStatus();
  }
};

Status MeasureWith(int workers, const std::string& uncounted, const Settings& settings,
                   Report& report) {
  const std::string cluster =
      std::to_string(workers) + " worker process" + (workers > 1 ? "es" : "");
  Line& rate = report.Add({.row = "counting",
                           .what = "no-op calls executed, " + cluster,
                           .unit = "1/s",
                           .better = Better::kMore,
                           .goal = Goal::RatioAtLeast(kCountingGoal),
                           .note = "with metrics and progress counters, and without"});
  Line& time = report.Add({.row = "counting",
                           .what = "processor time of a worker for a call, " + cluster,
                           .unit = "ns",
                           .better = Better::kLess,
                           .goal = Goal::None(),
                           .note = "waiting for messages awake included"});
  Line& traced_rate =
      report.Add({.row = "counting",
                  .what = "no-op calls executed while a timeline is recorded, " + cluster,
                  .unit = "1/s",
                  .better = Better::kMore,
                  .goal = Goal::None(),
                  .note = "of all ranks, the controller and the client"});
  LOCKSTEP_ASSIGN_OR_RETURN(Calls traced, Calls::Start(workers, ""));
  LOCKSTEP_RETURN_IF_ERROR(traced.StartTrace());
  LOCKSTEP_ASSIGN_OR_RETURN(Calls with, Calls::Start(workers, ""));
  LOCKSTEP_ASSIGN_OR_RETURN(Calls without, Calls::Start(workers, uncounted));
  const int turns = settings.quick ? 6 : 40;
  const int calls = settings.quick ? 10'000 : 20'000;
  for (Calls* each : {&with, &without, &traced})
    LOCKSTEP_RETURN_IF_ERROR(each->Make(calls).status());
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    Turns counted;
    Turns bare;
    Turns recorded;
    for (int turn = 0; turn < turns; ++turn) {
      // The second of two may find the machine as the first has left it.
      const bool bare_first = turn % 2 == 1;
      if (bare_first) LOCKSTEP_RETURN_IF_ERROR(bare.Take(without, calls));
      LOCKSTEP_RETURN_IF_ERROR(counted.Take(with, calls));
      if (!bare_first) LOCKSTEP_RETURN_IF_ERROR(bare.Take(without, calls));
      LOCKSTEP_RETURN_IF_ERROR(recorded.Take(traced, calls));
    }
    rate.ours.push_back(calls / Median(counted.seconds));
    rate.Rival("nothing counted").values.push_back(calls / Median(bare.seconds));
    traced_rate.ours.push_back(calls / Median(recorded.seconds));
    traced_rate.Rival("nothing recorded").values.push_back(calls / Median(counted.seconds));
    time.ours.push_back(Median(counted.worker_seconds) * 1e9 / calls);
    time.Rival("nothing counted").values.push_back(Median(bare.worker_seconds) * 1e9 / calls);
  }
  LOCKSTEP_RETURN_IF_ERROR(with.Stop());
  LOCKSTEP_RETURN_IF_ERROR(traced.Stop());
  return without.Stop();
}

}  // namespace

Status MeasureCounting(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string uncounted,
      FindProgram("uncounted_worker", "LOCKSTEP_UNCOUNTED_WORKER", "tools/bench"));
  for (const int workers : {1, 4}) {
    LOCKSTEP_RETURN_IF_ERROR(MeasureWith(workers, uncounted, settings, report));
  }
  return OkStatus();
}

}  // namespace lockstep::bench
