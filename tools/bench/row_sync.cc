// How long it takes until all workers have answered.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "tools/bench/clusters.h"
#include "tools/bench/disco.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"

namespace lockstep::bench {
namespace {

constexpr int kSyncWorkers = 4;
// Times of the floor.
constexpr double kFloors = 1.5;
constexpr double kFloorsOfServices = 2.5;
// Times of the bare fan-out over the same kind of socket.
constexpr double kFanOuts = 1.25;
constexpr double kFanOutsOfServices = 1.5;

// One kind of cluster, and the line that its times are for.
struct Synced {
  Line* line;
  int workers;
  bool is_embedded;  // the controller is in this process, else in one of its own
  Way way = Way::kUsual;
};

// The median time of a SyncAll of a cluster that is there for that alone.
StatusOr<double> MeasureOnce(const Settings& settings, const Synced& synced) {
  const std::chrono::milliseconds time(settings.quick ? 150 : 400);
  const auto measure = [&](auto& cluster) -> StatusOr<double> {
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster.Connect());
    LOCKSTEP_ASSIGN_OR_RETURN(const double micros, TimeSync(session, time));
    LOCKSTEP_RETURN_IF_ERROR(session.Close());
    return micros;
  };
  if (synced.is_embedded) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(synced.workers, synced.way));
    LOCKSTEP_ASSIGN_OR_RETURN(const double micros, measure(*cluster));
    LOCKSTEP_RETURN_IF_ERROR(cluster->Stop());
    return micros;
  }
  std::vector<std::string> more;
  if (synced.way != Way::kUsual) more = {"--set", "controller.command_rings=off"};
  if (synced.way == Way::kTcp) {
    for (const char* listener : {"client", "worker", "liveness"}) {
      more.insert(more.end(),
                  {"--set", std::string("controller.") + listener + "_endpoint=tcp://127.0.0.1:*"});
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster,
                            ServiceCluster::Up(settings, synced.workers, std::move(more)));
  LOCKSTEP_ASSIGN_OR_RETURN(const double micros, measure(*cluster));
  LOCKSTEP_RETURN_IF_ERROR(cluster->Down());
  return micros;
}

}  // namespace

// On one host commands go through shared memory; the floor is what two words of it can do, the bare
// ring what commands of some size can. By sockets alone, the rival is a bare ROUTER-DEALER fan-out:
// it has one hop each way, workers that execute nothing, and no controller in between; our sync
// passes the controller, which gathers the answers into one.
Status MeasureSync(const Settings& settings, Report& report) {
  const auto add = [&](const std::string& what, double most_rivals, const char* note) {
    return &report.Add({.row = "sync",
                        .what = what,
                        .unit = "us",
                        .better = Better::kLess,
                        .goal = Goal::RatioAtLeast(1 / most_rivals),
                        .note = note});
  };
  const auto of = [](int workers) { return std::to_string(workers) + " worker processes"; };
  constexpr char kHere[] = "controller in the client's process (LocalCluster)";
  constexpr char kApart[] = "controller in a process of its own";
  std::vector<Synced> all;
  for (const int workers : {kSyncWorkers, 2, 8}) {
    if (settings.quick && workers != kSyncWorkers) continue;
    all.push_back({add("SyncAll, " + of(workers) + ", p50", kFloors, kHere), workers, true});
    all.push_back({add("the same with `lockstep up`", kFloorsOfServices, kApart), workers, false});
  }
  const std::vector<Synced> by_memory = all;
  const std::vector<Synced> by_socket = {
      {add("LocalCluster without shared memory", kFanOuts, "command_rings: off; ipc sockets"),
       kSyncWorkers, true, Way::kIpc},
      {add("the same with `lockstep up`", kFanOutsOfServices, kApart), kSyncWorkers, false,
       Way::kIpc},
      {add("LocalCluster over TCP", kFanOuts, "on ports of 127.0.0.1"), kSyncWorkers, true,
       Way::kTcp},
      {add("the same with `lockstep up`", kFanOutsOfServices, kApart), kSyncWorkers, false,
       Way::kTcp}};
  all.insert(all.end(), by_socket.begin(), by_socket.end());

  LOCKSTEP_ASSIGN_OR_RETURN(const std::string fan_out,
                            FindProgram("router_dealer", "LOCKSTEP_ROUTER_DEALER", "tools/bench"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string ring,
                            FindProgram("shared_ring", "LOCKSTEP_SHARED_RING", "tools/bench"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Disco disco, Disco::Find(settings, "sync_p50_us",
                                                           {by_memory[0].line, by_memory[1].line}));
  const auto run = [&](const std::string& program, int workers,
                       const std::string& transport) -> StatusOr<Numbers> {
    std::vector<std::string> argv = {program, std::to_string(workers)};
    if (!transport.empty()) argv.push_back(transport);
    return RunRival({.argv = std::move(argv), .scratch = settings.scratch});
  };

  for (int round = 0; round < settings.rounds; ++round) {
    for (const Synced& synced : all) {
      LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
      LOCKSTEP_ASSIGN_OR_RETURN(const double micros, MeasureOnce(settings, synced));
      synced.line->ours.push_back(micros);
      if (synced.way != Way::kUsual || !synced.is_embedded) continue;
      // For this line, and the next one of as many workers.
      LOCKSTEP_ASSIGN_OR_RETURN(const Numbers memory, run(ring, synced.workers, ""));
      LOCKSTEP_ASSIGN_OR_RETURN(const double floor, Get(memory, "floor_p50_us"));
      LOCKSTEP_ASSIGN_OR_RETURN(const double by_ring, Get(memory, "sync_p50_us"));
      for (const Synced& same : by_memory) {
        if (same.workers != synced.workers) continue;
        same.line->Rival("floor of shared memory").values.push_back(floor);
        same.line->Rival("bare ring").values.push_back(by_ring);
      }
    }
    LOCKSTEP_RETURN_IF_ERROR(disco.Measure(kSyncWorkers));
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers ipc, run(fan_out, kSyncWorkers, "ipc"));
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_ipc, Get(ipc, "sync_p50_us"));
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers tcp, run(fan_out, kSyncWorkers, "tcp"));
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_tcp, Get(tcp, "sync_p50_us"));
    for (const Synced& synced : by_socket) {
      synced.line->Rival("bare ROUTER-DEALER")
          .values.push_back(synced.way == Way::kTcp ? by_tcp : by_ipc);
    }
  }
  return OkStatus();
}

}  // namespace lockstep::bench
