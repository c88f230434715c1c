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

// One session, and the line that its times are for.
struct Synced {
  Line* line;
  Session session;
};

}  // namespace

// On one host commands go through shared memory; the floor is what two words of it can do, the bare
// ring what commands of some size can. By sockets alone, the rival is a bare ROUTER-DEALER fan-out:
// it has one hop each way, workers that execute nothing, and no controller in between; our sync
// passes the controller, which gathers the answers into one.
Status MeasureSync(const Settings& settings, Report& report) {
  const auto add = [&](const char* what, double most_rivals, const char* note) {
    return &report.Add({.row = "sync",
                        .what = what,
                        .unit = "us",
                        .better = Better::kLess,
                        .goal = Goal::RatioAtLeast(1 / most_rivals),
                        .note = note});
  };
  Line* const embedded = add("SyncAll, 4 worker processes, p50", kFloors,
                             "controller in the client's process (LocalCluster)");
  Line* const service =
      add("the same with `lockstep up`", kFloorsOfServices, "controller in a process of its own");
  Line* const by_socket =
      add("LocalCluster without shared memory", kFanOuts, "command_rings: off; ipc sockets");
  Line* const by_tcp = add("the same over TCP", kFanOuts, "on ports of 127.0.0.1");

  LOCKSTEP_ASSIGN_OR_RETURN(const std::string fan_out,
                            FindProgram("router_dealer", "LOCKSTEP_ROUTER_DEALER", "tools/bench"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string ring,
                            FindProgram("shared_ring", "LOCKSTEP_SHARED_RING", "tools/bench"));
  LOCKSTEP_ASSIGN_OR_RETURN(const Disco disco,
                            Disco::Find(settings, "sync_p50_us", {embedded, service}));
  const std::string workers = std::to_string(kSyncWorkers);
  const auto run = [&](std::vector<std::string> argv) {
    return RunRival({.argv = std::move(argv), .scratch = settings.scratch});
  };

  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(kSyncWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto services, ServiceCluster::Up(settings, kSyncWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto ipc_cluster, StartLocalCluster(kSyncWorkers, Way::kIpc));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tcp_cluster, StartLocalCluster(kSyncWorkers, Way::kTcp));
  std::vector<Synced> sessions;
  const auto connect = [&](Line* line, const auto& to) -> Status {
    LOCKSTEP_ASSIGN_OR_RETURN(Session session, to->Connect());
    sessions.push_back({line, std::move(session)});
    return OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(connect(embedded, cluster));
  LOCKSTEP_RETURN_IF_ERROR(connect(service, services));
  LOCKSTEP_RETURN_IF_ERROR(connect(by_socket, ipc_cluster));
  LOCKSTEP_RETURN_IF_ERROR(connect(by_tcp, tcp_cluster));

  const std::chrono::milliseconds time(settings.quick ? 150 : 400);
  for (int round = 0; round < settings.rounds; ++round) {
    for (Synced& synced : sessions) {
      LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
      LOCKSTEP_ASSIGN_OR_RETURN(const double micros, TimeSync(synced.session, time));
      synced.line->ours.push_back(micros);
    }
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers memory, run({ring, workers}));
    LOCKSTEP_ASSIGN_OR_RETURN(const double floor, Get(memory, "floor_p50_us"));
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_ring, Get(memory, "sync_p50_us"));
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers ipc, run({fan_out, workers, "ipc"}));
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_ipc, Get(ipc, "sync_p50_us"));
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers tcp, run({fan_out, workers, "tcp"}));
    LOCKSTEP_ASSIGN_OR_RETURN(const double by_bare_tcp, Get(tcp, "sync_p50_us"));
    for (Line* const line : {embedded, service}) {
      line->Rival("floor of shared memory").values.push_back(floor);
      line->Rival("bare ring").values.push_back(by_ring);
      line->Rival("bare ROUTER-DEALER").values.push_back(by_ipc);
    }
    LOCKSTEP_RETURN_IF_ERROR(disco.Measure(kSyncWorkers));
    by_socket->Rival("bare ROUTER-DEALER").values.push_back(by_ipc);
    by_tcp->Rival("bare ROUTER-DEALER").values.push_back(by_bare_tcp);
  }
  for (Synced& synced : sessions) LOCKSTEP_RETURN_IF_ERROR(synced.session.Close());
  LOCKSTEP_RETURN_IF_ERROR(tcp_cluster->Stop());
  LOCKSTEP_RETURN_IF_ERROR(ipc_cluster->Stop());
  LOCKSTEP_RETURN_IF_ERROR(services->Down());
  return cluster->Stop();
}

}  // namespace lockstep::bench
