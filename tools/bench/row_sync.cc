// How long all workers take to answer, beside a bare ROUTER-DEALER fan-out.
//
// On one host over sockets of the file system, and over TCP as between hosts. The fan-out has one
// hop each way, workers that execute nothing, and no controller in between; our sync passes the
// controller, which gathers the answers into one.
#include <chrono>

#include "services/local/child_process.h"
#include "tools/bench/clusters.h"
#include "tools/bench/program.h"
#include "tools/bench/rows.h"
#include "tools/bench/session_timing.h"

namespace lockstep::bench {
namespace {

constexpr int kSyncWorkers = 4;
constexpr double kSyncGoal = 1 / 1.5;  // within 1.5 times the rival's time
constexpr double kGoalTcp = 1 / 1.25;

}  // namespace

Status MeasureSync(const Settings& settings, Report& report) {
  Line& embedded = report.Add({.row = "sync",
                               .what = "SyncAll, 4 worker processes, p50",
                               .unit = "us",
                               .better = Better::kLess,
                               .goal = Goal::RatioAtLeast(kSyncGoal),
                               .note = "controller in the client's process (LocalCluster)"});
  Line& service = report.Add({.row = "sync",
                              .what = "the same with `lockstep up`",
                              .unit = "us",
                              .better = Better::kLess,
                              .goal = Goal::None(),
                              .note = "controller in a process of its own"});
  Line& tcp = report.Add({.row = "sync",
                          .what = "the same over TCP",
                          .unit = "us",
                          .better = Better::kLess,
                          .goal = Goal::RatioAtLeast(kGoalTcp),
                          .note = "LocalCluster, on ports of 127.0.0.1"});

  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::string rival,
      local::FindProgram("router_dealer", "LOCKSTEP_ROUTER_DEALER", "tools/bench"));
  const auto fan_out = [&](const char* transport) -> StatusOr<double> {
    LOCKSTEP_ASSIGN_OR_RETURN(const Numbers numbers,
                              RunRival({.argv = {rival, std::to_string(kSyncWorkers), transport},
                                        .scratch = settings.scratch}));
    return Get(numbers, "sync_p50_us");
  };
  LOCKSTEP_ASSIGN_OR_RETURN(const auto cluster, StartLocalCluster(kSyncWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, cluster->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const auto services, ServiceCluster::Up(settings, kSyncWorkers));
  LOCKSTEP_ASSIGN_OR_RETURN(Session service_session, services->Connect());
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tcp_cluster, StartLocalCluster(kSyncWorkers, Sockets::kTcp));
  LOCKSTEP_ASSIGN_OR_RETURN(Session tcp_session, tcp_cluster->Connect());

  const std::chrono::milliseconds time(settings.quick ? 150 : 400);
  for (int round = 0; round < settings.rounds; ++round) {
    LOCKSTEP_RETURN_IF_ERROR(CheckNotInterrupted());
    LOCKSTEP_ASSIGN_OR_RETURN(const double embedded_us, TimeSync(session, time));
    embedded.ours.push_back(embedded_us);
    LOCKSTEP_ASSIGN_OR_RETURN(const double rival_us, fan_out("ipc"));
    embedded.Rival("bare ROUTER-DEALER").values.push_back(rival_us);
    LOCKSTEP_ASSIGN_OR_RETURN(const double service_us, TimeSync(service_session, time));
    service.ours.push_back(service_us);
    service.Rival("bare ROUTER-DEALER").values.push_back(rival_us);
    LOCKSTEP_ASSIGN_OR_RETURN(const double tcp_us, TimeSync(tcp_session, time));
    tcp.ours.push_back(tcp_us);
    LOCKSTEP_ASSIGN_OR_RETURN(const double tcp_rival_us, fan_out("tcp"));
    tcp.Rival("bare ROUTER-DEALER").values.push_back(tcp_rival_us);
  }
  LOCKSTEP_RETURN_IF_ERROR(tcp_session.Close());
  LOCKSTEP_RETURN_IF_ERROR(service_session.Close());
  LOCKSTEP_RETURN_IF_ERROR(session.Close());
  LOCKSTEP_RETURN_IF_ERROR(tcp_cluster->Stop());
  LOCKSTEP_RETURN_IF_ERROR(services->Down());
  return cluster->Stop();
}

}  // namespace lockstep::bench
