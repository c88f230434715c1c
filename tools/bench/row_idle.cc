// What a cluster costs that nobody uses, and whether it is the same after ten million calls.
//
// Measured once, not in rounds: these are properties of the services, not races.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "tools/bench/clusters.h"
#include "tools/bench/process_facts.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr int kIdleWorkers = 8;
constexpr int kBusyWorkers = 4;
constexpr double kGoalPercent = 1;
constexpr double kGoalControllerMb = 40;
constexpr double kGoalWorkerMb = 60;
// Allocators keep a page here and there; ten million of anything would be far more.
constexpr double kGoalGrowthMb = 1;
constexpr double kMb = 1e6;

StatusOr<double> CpuSeconds(const std::vector<pid_t>& pids) {
  double seconds = 0;
  for (const pid_t pid : pids) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto time, CpuTime(pid));
    seconds += time.count();
  }
  return seconds;
}

StatusOr<double> LargestResidentMb(const std::vector<pid_t>& pids) {
  size_t largest = 0;
  for (const pid_t pid : pids) {
    LOCKSTEP_ASSIGN_OR_RETURN(const size_t bytes, ResidentBytes(pid));
    largest = std::max(largest, bytes);
  }
  return static_cast<double>(largest) / kMb;
}

Status MeasureIdleness(const Settings& settings, Report& report) {
  Line& workers_cpu = report.Add({.row = "idle",
                                  .what = "CPU of 8 workers together",
                                  .unit = "% of a core",
                                  .goal = Goal::ValueAtMost(kGoalPercent)});
  Line& controller_cpu = report.Add({.row = "idle",
                                     .what = "CPU of the controller",
                                     .unit = "% of a core",
                                     .goal = Goal::None()});
  Line& controller_memory = report.Add({.row = "idle",
                                        .what = "memory of the controller",
                                        .unit = "MB",
                                        .goal = Goal::ValueAtMost(kGoalControllerMb)});
  Line& worker_memory = report.Add({.row = "idle",
                                    .what = "memory of the largest worker",
                                    .unit = "MB",
                                    .goal = Goal::ValueAtMost(kGoalWorkerMb)});
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, ServiceCluster::Up(settings, kIdleWorkers));
  // An open session is part of the picture: it has heartbeats of its own.
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  std::this_thread::sleep_for(std::chrono::milliseconds(500));

  const std::vector<pid_t>& workers = cluster->worker_pids();
  const std::vector<pid_t> controller = {cluster->controller_pid()};
  const std::chrono::duration<double> span(settings.quick ? 3 : 10);
  LOCKSTEP_ASSIGN_OR_RETURN(const double workers_before, CpuSeconds(workers));
  LOCKSTEP_ASSIGN_OR_RETURN(const double controller_before, CpuSeconds(controller));
  std::this_thread::sleep_for(span);
  LOCKSTEP_ASSIGN_OR_RETURN(const double workers_after, CpuSeconds(workers));
  LOCKSTEP_ASSIGN_OR_RETURN(const double controller_after, CpuSeconds(controller));
  workers_cpu.ours = {(workers_after - workers_before) / span.count() * 100};
  controller_cpu.ours = {(controller_after - controller_before) / span.count() * 100};

  LOCKSTEP_ASSIGN_OR_RETURN(const double controller_mb, LargestResidentMb(controller));
  controller_memory.ours = {controller_mb};
  LOCKSTEP_ASSIGN_OR_RETURN(const double worker_mb, LargestResidentMb(workers));
  worker_memory.ours = {worker_mb};
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Down();
}

Status Issue(Session& session, const DRef& function, int calls) {
  for (int i = 0; i < calls; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(session.Call(function).status());
    constexpr int kCallsPerLook = 500'000;
    if (i % kCallsPerLook == 0) LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
  }
  return session.SyncAll();
}

Status MeasureGrowth(const Settings& settings, Report& report) {
  const int calls = settings.quick ? 1'000'000 : 10'000'000;
  const std::string what = " after " + std::to_string(calls / 1'000'000) + " million calls";
  struct Watched {
    Line* line;
    std::vector<pid_t> pids;
    double before_mb = 0;
  };
  const auto add = [&](const std::string& who) {
    return &report.Add({.row = "idle",
                        .what = who + what,
                        .unit = "MB more",
                        .goal = Goal::ValueAtMost(kGoalGrowthMb)});
  };
  std::vector<Watched> watched = {
      {add("controller"), {}}, {add("workers"), {}}, {add("client"), {}}};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, ServiceCluster::Up(settings, kBusyWorkers));
  watched[0].pids = {cluster->controller_pid()};
  watched[1].pids = cluster->worker_pids();
  watched[2].pids = {getpid()};
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef nop, session.GetFunction("lockstep.nop"));
  // Until queues, pools and heaps have the size that this load needs.
  LOCKSTEP_RETURN_IF_ERROR(Issue(session, nop, calls / 10));
  for (Watched& process : watched) {
    LOCKSTEP_ASSIGN_OR_RETURN(process.before_mb, LargestResidentMb(process.pids));
  }
  LOCKSTEP_RETURN_IF_ERROR(Issue(session, nop, calls));
  for (Watched& process : watched) {
    LOCKSTEP_ASSIGN_OR_RETURN(const double after_mb, LargestResidentMb(process.pids));
    process.line->ours = {after_mb - process.before_mb};
  }
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Down();
}

}  // namespace

Status MeasureIdle(const Settings& settings, Report& report) {
  LOCKSTEP_RETURN_IF_ERROR(MeasureIdleness(settings, report));
  LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
  return MeasureGrowth(settings, report);
}

}  // namespace lockstep::bench
