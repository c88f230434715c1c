#include "tests/chaos/cluster_on_hosts.h"

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "tests/chaos/client.h"
#include "tests/chaos/clients.h"
#include "tests/chaos/host_faults.h"
#include "tests/chaos/leak_check.h"
#include "tests/integration/hosts/netns_cluster.h"

namespace lockstep::chaos {
namespace {

using namespace std::chrono_literals;
using testing::NetnsCluster;

// Of one worker: for commands, and for liveness.
constexpr size_t kControllerConnections = 2;

testing::NetnsClusterOptions OptionsOf(const Plan& plan) {
  testing::NetnsClusterOptions options;
  options.hosts = plan.hosts;
  options.ranks_per_host = plan.RanksPerHost();
  options.controller.heartbeat_interval = 100ms;
  options.controller.worker_timeout = plan.WorkerTimeout();
  options.controller.session_lease = plan.Lease();
  // Some deadline ends what nothing else does; only here it is to come before long.
  options.controller.collective_timeout = plan.fault == Fault::kSeparateHosts ? 4s : 60s;
  options.worker.arena_bytes = size_t{256} << 20;
  return options;
}

// Starts everything, or all but the workers of the host that is late.
Status Start(NetnsCluster& cluster, const Plan& plan) {
  for (int host = 0; host <= plan.hosts; ++host) SetWireQuality(cluster, plan, host);
  if (plan.fault != Fault::kLateHost) return cluster.Start();
  for (int host = 0; host < plan.hosts; ++host) {
    if (host != plan.host) LOCKSTEP_RETURN_IF_ERROR(cluster.StartWorkersOf(host));
  }
  return cluster.StartController();
}

// The services' processes that run, and are not out of reach.
std::vector<pid_t> RunningPids(const NetnsCluster& cluster, const Plan& plan) {
  std::map<std::string, pid_t> named = cluster.Pids();
  if (LosesForGood(plan.fault)) {
    for (const Rank rank : plan.LostRanks()) named.erase("worker-" + std::to_string(rank));
  }
  std::vector<pid_t> pids;
  for (const auto& [name, pid] : named) {
    if (pid > 0) pids.push_back(pid);
  }
  return pids;
}

// No process and no shared memory is left on any host.
Status CheckHosts(const NetnsCluster& cluster, const Plan& plan) {
  std::string left;
  for (int host = 0; host <= plan.hosts; ++host) {
    if (LosesForGood(plan.fault) && host == plan.host) continue;
    const std::string where = " on host " + std::to_string(host) + ";";
    for (const pid_t pid : cluster.hosts().Processes(host)) {
      left += " process " + std::to_string(pid) + where;
    }
    for (const std::string& name : cluster.hosts().SharedMemory(host)) left += " " + name + where;
  }
  return left.empty() ? OkStatus() : Violation("hosts are not as they were:", left);
}

}  // namespace

Status RunClusterOnHosts(const Plan& plan) {
  NetnsCluster cluster(OptionsOf(plan));
  LOCKSTEP_RETURN_IF_ERROR(Start(cluster, plan));
  // Of a cluster that is not whole yet, it is not known what it will have.
  std::map<pid_t, size_t> descriptors = DescriptorsOf(
      plan.fault == Fault::kLateHost ? std::vector<pid_t>() : RunningPids(cluster, plan));
  // It takes minutes until a connection is given up that is neither used nor ended.
  if (plan.fault == Fault::kPowerCut) {
    descriptors[cluster.Pids()["controller"]] += kControllerConnections * plan.LostRanks().size();
  }
  Status late;
  std::thread latecomer([&] {
    if (plan.fault != Fault::kLateHost) return;
    std::this_thread::sleep_for(4 * plan.delay);
    late = cluster.StartWorkersOf(plan.host);
  });
  Status status =
      RunClients(plan, cluster.address(), [&] { return InjectHostFault(cluster, plan); });
  latecomer.join();
  status.Update(late);
  if (status.ok()) status = CheckAtRest(cluster.address(), plan);
  if (status.ok()) status = CheckDescriptorsOf(RunningPids(cluster, plan), descriptors);

  // Who is out of reach would not hear that the others stop.
  if (LosesForGood(plan.fault)) cluster.KillHost(plan.host);
  const Status stopped = cluster.Stop();
  status.Update(stopped);
  if (stopped.ok()) status.Update(CheckHosts(cluster, plan));
  return status;
}

}  // namespace lockstep::chaos
