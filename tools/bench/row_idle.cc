// What an unused cluster costs, and whether it is the same after ten million calls.
//
// Measured once, not in rounds: these are properties of the services, not races.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/bench/clusters.h"
#include "tools/bench/program.h"
#include "tools/bench/report.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr int kIdleWorkers = 8;
constexpr int kBusyWorkers = 4;
constexpr double kGoalPercent = 0.3;
constexpr double kGoalControllerMb = 40;
constexpr double kGoalWorkerMb = 60;
constexpr double kGoalAddedMb = 8;
// A heap keeps the size of the longest queue it has seen, which the flow window (8 MiB) bounds. The
// least that can be kept per call, 16 bytes of a heap, would be 160 MB.
constexpr double kGoalGrowthMb = 8.4;
// The calls are made in parts, with a look after each: queues differ from one to the next.
constexpr int kParts = 20;
constexpr int kPartsCompared = 5;  // the first so many and the last so many
constexpr double kMb = 1e6;

StatusOr<double> CpuSeconds(const std::vector<pid_t>& pids) {
  double seconds = 0;
  for (const pid_t pid : pids) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto time, CpuTime(pid));
    seconds += time.count();
  }
  return seconds;
}

using MeasureBytes = StatusOr<size_t>(pid_t pid);

StatusOr<std::vector<double>> Mb(const std::vector<pid_t>& pids, MeasureBytes* measure) {
  std::vector<double> result;
  for (const pid_t pid : pids) {
    LOCKSTEP_ASSIGN_OR_RETURN(const size_t bytes, measure(pid));
    result.push_back(static_cast<double>(bytes) / kMb);
  }
  return result;
}

StatusOr<double> LargestMb(const std::vector<pid_t>& pids, MeasureBytes* measure) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> all, Mb(pids, measure));
  return *std::max_element(all.begin(), all.end());
}

Status MeasureIdleness(const Settings& settings, Report& report) {
  Line& workers_cpu = report.Add({.row = "idle",
                                  .what = "CPU of 8 workers together",
                                  .unit = "% of a core",
                                  .goal = Goal::None()});
  Line& controller_cpu = report.Add({.row = "idle",
                                     .what = "CPU of the controller",
                                     .unit = "% of a core",
                                     .goal = Goal::None()});
  Line& all_cpu = report.Add({.row = "idle",
                              .what = "CPU of all of them",
                              .unit = "% of a core",
                              .goal = Goal::ValueAtMost(kGoalPercent)});
  Line& controller_memory = report.Add({.row = "idle",
                                        .what = "memory of the controller",
                                        .unit = "MB",
                                        .goal = Goal::ValueAtMost(kGoalControllerMb)});
  Line& worker_memory = report.Add({.row = "idle",
                                    .what = "memory of the largest worker",
                                    .unit = "MB",
                                    .goal = Goal::ValueAtMost(kGoalWorkerMb)});
  Line& added_memory = report.Add({.row = "idle",
                                   .what = "memory that a worker adds, beside arenas",
                                   .unit = "MB",
                                   .goal = Goal::ValueAtMost(kGoalAddedMb)});
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

  all_cpu.ours = {workers_cpu.ours[0] + controller_cpu.ours[0]};

  LOCKSTEP_ASSIGN_OR_RETURN(const double controller_mb, LargestMb(controller, &ResidentBytes));
  controller_memory.ours = {controller_mb};
  LOCKSTEP_ASSIGN_OR_RETURN(const double worker_mb, LargestMb(workers, &ResidentBytes));
  worker_memory.ours = {worker_mb};
  LOCKSTEP_ASSIGN_OR_RETURN(const double added_mb, LargestMb(workers, &AddedBytes));
  added_memory.ours = {added_mb};
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  return cluster->Down();
}

Status Issue(Session& session, const DRef& function, int calls) {
  for (int i = 0; i < calls; ++i) {
    LOCKSTEP_RETURN_IF_ERROR(session.Call(function).status());
    constexpr int kCallsPerCheck = 100'000;
    if (i % kCallsPerCheck == 0) LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
  }
  return session.SyncAll();
}

Status MeasureGrowth(const Settings& settings, Report& report) {
  const int calls = settings.quick ? 1'000'000 : 10'000'000;
  const std::string what = " after " + std::to_string(calls / 1'000'000) + " million calls";
  struct Watched {
    Line* line;
    std::vector<pid_t> pids;
    std::vector<double> looks_mb = {};  // mean over the processes, after each part
  };
  const auto add = [&](const std::string& who) {
    return &report.Add({.row = "idle",
                        .what = who + what,
                        .unit = "MB more",
                        .goal = Goal::ValueAtMost(kGoalGrowthMb)});
  };
  std::vector<Watched> watched = {
      {add("controller"), {}}, {add("a worker"), {}}, {add("client"), {}}};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, ServiceCluster::Up(settings, kBusyWorkers));
  watched[0].pids = {cluster->controller_pid()};
  watched[1].pids = cluster->worker_pids();
  watched[2].pids = {getpid()};
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef nop, session.GetFunction("lockstep.nop"));
  // Until queues, pools and heaps have the size that this load needs.
  LOCKSTEP_RETURN_IF_ERROR(Issue(session, nop, calls / 10));
  for (int part = 0; part < kParts; ++part) {
    LOCKSTEP_RETURN_IF_ERROR(Issue(session, nop, calls / kParts));
    for (Watched& processes : watched) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> all, Mb(processes.pids, &ResidentBytes));
      processes.looks_mb.push_back(std::accumulate(all.begin(), all.end(), 0.0) /
                                   static_cast<double>(all.size()));
    }
  }
  for (Watched& processes : watched) {
    const std::vector<double>& looks = processes.looks_mb;
    const double before = Median({looks.begin(), looks.begin() + kPartsCompared});
    const double after = Median({looks.end() - kPartsCompared, looks.end()});
    processes.line->ours = {after - before};
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
