#include "tests/chaos/host_faults.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "runtime/base/deadline.h"
#include "tests/chaos/client.h"

namespace lockstep::chaos {
namespace {

using namespace std::chrono_literals;
using testing::NetnsCluster;

// The wire is as it was before the fault.
void MendWire(NetnsCluster& cluster, const Plan& plan) {
  cluster.hosts().Mend(plan.host);
  SetWireQuality(cluster, plan, plan.host);
}

// Until the controller's view of the cluster is `what`.
template <typename Holds>
Status AwaitThat(NetnsCluster& cluster, const Plan& plan, const std::string& what, Holds holds) {
  const Deadline deadline = Deadline::After(plan.LongestCall());
  while (!deadline.Expired()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus now, cluster.Ask());
    if (holds(now)) return OkStatus();
    std::this_thread::sleep_for(10ms);
  }
  return Violation("not within ", plan.LongestCall().count(), " ms: ", what);
}

// Until the ranks are lost, or already have other workers.
Status AwaitLoss(NetnsCluster& cluster, const Plan& plan, Epoch before) {
  return AwaitThat(cluster, plan, "workers are lost", [&](const ClusterStatus& now) {
    const std::vector<Rank> lost = plan.LostRanks();
    return now.epoch != before || std::all_of(lost.begin(), lost.end(), [&](Rank rank) {
             return now.workers[static_cast<size_t>(rank)].state == WorkerState::kLost;
           });
  });
}

// The wire is mended; those that were given up hear it and end, and others take their ranks.
Status ReplaceTheLost(NetnsCluster& cluster, const Plan& plan) {
  MendWire(cluster, plan);
  for (const Rank rank : plan.LostRanks()) {
    LOCKSTEP_RETURN_IF_ERROR(cluster.AwaitEnd("worker-" + std::to_string(rank)).status());
  }
  for (const Rank rank : plan.LostRanks()) LOCKSTEP_RETURN_IF_ERROR(cluster.StartWorker(rank));
  return OkStatus();
}

}  // namespace

void SetWireQuality(NetnsCluster& cluster, const Plan& plan, int host) {
  switch (plan.wires) {
    case WireQuality::kGood:
      break;
    case WireQuality::kLossy:
      cluster.hosts().LosePackets(host, plan.one_in);
      break;
    case WireQuality::kLowBandwidth:
      cluster.hosts().Narrow(host, std::to_string(plan.mbit) + "mbit");
      break;
    case WireQuality::kLongDelay:
      cluster.hosts().Lengthen(host, plan.length);
      break;
  }
}

Status InjectHostFault(NetnsCluster& cluster, const Plan& plan) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus before, cluster.Ask());
  std::this_thread::sleep_for(plan.delay);
  switch (plan.fault) {
    case Fault::kPause:
      cluster.hosts().Isolate(plan.host);
      std::this_thread::sleep_for(plan.hold_up);
      MendWire(cluster, plan);
      return OkStatus();
    case Fault::kCutForGood:
      cluster.hosts().Isolate(plan.host);
      return AwaitLoss(cluster, plan, before.epoch);
    case Fault::kPartition:
      cluster.hosts().Isolate(plan.host);
      LOCKSTEP_RETURN_IF_ERROR(AwaitLoss(cluster, plan, before.epoch));
      return ReplaceTheLost(cluster, plan);
    case Fault::kDropIncoming:
      cluster.hosts().Deafen(plan.host);
      LOCKSTEP_RETURN_IF_ERROR(AwaitLoss(cluster, plan, before.epoch));
      return ReplaceTheLost(cluster, plan);
    case Fault::kIsolateController:
      cluster.hosts().Isolate(plan.host);
      // It cannot be asked.
      std::this_thread::sleep_for(plan.WorkerTimeout() + 1s);
      return ReplaceTheLost(cluster, plan);
    case Fault::kSeparateHosts:
      cluster.hosts().Separate(plan.host, plan.other);
      LOCKSTEP_RETURN_IF_ERROR(
          AwaitThat(cluster, plan, "all sessions have failed", [](const ClusterStatus& now) {
            return std::none_of(now.sessions.begin(), now.sessions.end(),
                                [](const SessionStatus& session) { return session.error.empty(); });
          }));
      MendWire(cluster, plan);
      return OkStatus();
    case Fault::kPowerCut:
      cluster.KillHost(plan.host);
      // A rank has noticed, or none has.
      std::this_thread::sleep_for(10 * plan.hold_up);
      cluster.BootHost(plan.host);
      SetWireQuality(cluster, plan, plan.host);
      LOCKSTEP_RETURN_IF_ERROR(cluster.StartWorkersOf(plan.host));
      return AwaitLoss(cluster, plan, before.epoch);
    case Fault::kReplace:
      cluster.KillWorker(plan.victim);
      std::this_thread::sleep_for(10 * plan.hold_up);
      LOCKSTEP_RETURN_IF_ERROR(cluster.StartWorker(plan.victim));
      return AwaitLoss(cluster, plan, before.epoch);
    case Fault::kRestart:
      cluster.KillController();
      std::this_thread::sleep_for(plan.hold_up);
      return cluster.StartController();
    default:  // kLateHost: it has happened before
      return OkStatus();
  }
}

}  // namespace lockstep::chaos
