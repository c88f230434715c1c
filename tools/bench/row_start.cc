// From nothing to a cluster that takes calls, beside the start of as many MPI ranks.
#include <chrono>
#include <memory>

#include "tools/bench/clusters.h"
#include "tools/bench/open_mpi.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr int kServiceWorkers = 8;
constexpr int kLocalWorkers = 4;
constexpr double kGoalServices = 0.06;
constexpr double kGoalLocal = 0.025;

// Seconds that `start` takes.
template <typename Start>
StatusOr<double> Time(Start&& start) {
  const auto begin = std::chrono::steady_clock::now();
  LOCKSTEP_RETURN_IF_ERROR(start());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Status AddRival(const OpenMpi& mpi, int ranks, const Settings& settings, Line& line) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const double seconds, Time([&] {
        return RunProgram(mpi.Run(ranks, MpiTunings().front(), {}, settings.scratch)).status();
      }));
  line.Rival("Open MPI, start to end").values.push_back(seconds);
  return OkStatus();
}

}  // namespace

Status MeasureStart(const Settings& settings, Report& report) {
  Line& services = report.Add({.row = "start",
                               .what = "`lockstep up --workers 8` until ready",
                               .unit = "s",
                               .better = Better::kLess,
                               .goal = Goal::ValueAtMost(kGoalServices)});
  Line& embedded = report.Add({.row = "start",
                               .what = "LocalCluster of 4 processes until ready",
                               .unit = "s",
                               .better = Better::kLess,
                               .goal = Goal::ValueAtMost(kGoalLocal)});
  const StatusOr<OpenMpi> mpi = OpenMpi::Find();
  if (!mpi.ok()) services.note = embedded.note = Message(mpi.status());
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, ServiceCluster::Up(settings, kServiceWorkers));
    services.ours.push_back(cluster->start_time().count());
    LOCKSTEP_RETURN_IF_ERROR(cluster->Down());
    if (mpi.ok()) LOCKSTEP_RETURN_IF_ERROR(AddRival(*mpi, kServiceWorkers, settings, services));

    std::unique_ptr<local::LocalCluster> in_process;
    LOCKSTEP_ASSIGN_OR_RETURN(const double seconds, Time([&]() -> Status {
                                LOCKSTEP_ASSIGN_OR_RETURN(in_process,
                                                          StartLocalCluster(kLocalWorkers));
                                return OkStatus();
                              }));
    embedded.ours.push_back(seconds);
    LOCKSTEP_RETURN_IF_ERROR(in_process->Stop());
    if (mpi.ok()) LOCKSTEP_RETURN_IF_ERROR(AddRival(*mpi, kLocalWorkers, settings, embedded));
  }
  return OkStatus();
}

}  // namespace lockstep::bench
