// What metrics and progress counters cost a no-op call, the command that they weigh most on.
//
// Two clusters take turns, several times in a round: the workers of one count, those of the other
// are the same but for that.
#include <chrono>

#include "services/local/child_process.h"
#include "tools/bench/clusters.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr double kGoal = 0.97;
constexpr int kTurns = 6;

// A session of no-op calls with a cluster of its own.
class Calls {
 public:
  // `worker_program`: empty for the one that people run.
  static StatusOr<Calls> Start(int workers, const std::string& worker_program) {
    Calls calls;
    LOCKSTEP_ASSIGN_OR_RETURN(calls.cluster_,
                              StartLocalCluster(workers, Sockets::kIpc, worker_program));
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, calls.cluster_->Connect());
    calls.session_ = std::make_unique<Session>(std::move(session));
    LOCKSTEP_ASSIGN_OR_RETURN(calls.nop_, calls.session_->GetFunction("lockstep.nop"));
    return calls;
  }

  // How long so many calls take, until all workers have executed them.
  StatusOr<std::chrono::duration<double>> Time(int calls) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) LOCKSTEP_RETURN_IF_ERROR(session_->Call(nop_).status());
    LOCKSTEP_RETURN_IF_ERROR(session_->SyncAll());
    return std::chrono::steady_clock::now() - start;
  }

  Status Stop() {
    nop_ = DRef();
    LOCKSTEP_RETURN_IF_ERROR(session_->Close());
    return cluster_->Stop();
  }

 private:
  std::unique_ptr<local::LocalCluster> cluster_;
  std::unique_ptr<Session> session_;
  DRef nop_;
};

}  // namespace

Status MeasureCounting(const Settings& settings, Report& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string uncounted,
      local::FindProgram("uncounted_worker", "LOCKSTEP_UNCOUNTED_WORKER", "tools/bench"));
  const int calls = settings.quick ? 50'000 : 200'000;
  for (const int workers : {1, 4}) {
    const std::string count = std::to_string(workers);
    Line& line = report.Add(
        {.row = "counting",
         .what = "no-op calls executed, " + count + " worker process" + (workers > 1 ? "es" : ""),
         .unit = "1/s",
         .better = Better::kMore,
         .goal = Goal::RatioAtLeast(kGoal),
         .note = "metrics and progress counters cost a call less than 3 %"});
    LOCKSTEP_ASSIGN_OR_RETURN(Calls with, Calls::Start(workers, ""));
    LOCKSTEP_ASSIGN_OR_RETURN(Calls without, Calls::Start(workers, uncounted));
    for (Calls* each : {&with, &without}) LOCKSTEP_RETURN_IF_ERROR(each->Time(calls).status());
    for (int round = 0; round < settings.rounds; ++round) {
      LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
      std::chrono::duration<double> counted{0};
      std::chrono::duration<double> bare{0};
      for (int turn = 0; turn < kTurns; ++turn) {
        LOCKSTEP_ASSIGN_OR_RETURN(const auto ours, with.Time(calls / kTurns));
        LOCKSTEP_ASSIGN_OR_RETURN(const auto rival, without.Time(calls / kTurns));
        counted += ours;
        bare += rival;
      }
      line.ours.push_back(calls / counted.count());
      line.Rival("nothing counted").values.push_back(calls / bare.count());
    }
    LOCKSTEP_RETURN_IF_ERROR(with.Stop());
    LOCKSTEP_RETURN_IF_ERROR(without.Stop());
  }
  return OkStatus();
}

}  // namespace lockstep::bench
