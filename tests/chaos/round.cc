#include "tests/chaos/round.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "runtime/client/session.h"
#include "tests/chaos/client.h"
#include "tests/chaos/clients.h"
#include "tests/chaos/cluster_on_hosts.h"
#include "tests/chaos/leak_check.h"
#include "tests/integration/cluster.h"
#include "tests/integration/process_watch.h"

namespace lockstep::chaos {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::ClusterKind;

constexpr auto kHeartbeat = 100ms;
constexpr int kRelayFanOut = 2;

// The services' processes that run, and are not frozen.
std::vector<pid_t> RunningPids(const Cluster& cluster, const Plan& plan) {
  std::vector<pid_t> pids = cluster.worker_pids();
  if (plan.fault == Fault::kStop) pids.erase(pids.begin() + plan.victim);
  if (plan.processes) pids.push_back(cluster.controller_pid());
  return pids;
}

// Injects the fault that hits all clients, at a random moment.
Status Strike(Cluster& cluster, const Plan& plan) {
  std::this_thread::sleep_for(std::chrono::milliseconds(plan.steps));
  const pid_t worker = cluster.worker_pids()[static_cast<size_t>(plan.victim)];
  switch (plan.fault) {
    case Fault::kKill:
    case Fault::kReplace:
      kill(worker, SIGKILL);
      break;
    case Fault::kStop:
      kill(worker, SIGSTOP);
      break;
    case Fault::kRestart:
      kill(cluster.controller_pid(), SIGKILL);
      break;
    default:
      return OkStatus();
  }
  if (plan.fault == Fault::kReplace || plan.fault == Fault::kRestart) {
    // Until then the loss may have been noticed, or not.
    std::this_thread::sleep_for(std::chrono::milliseconds(plan.seed % 7 * 20));
  }
  if (plan.fault == Fault::kReplace) return cluster.ReplaceWorker(plan.victim);
  if (plan.fault == Fault::kRestart) return cluster.RestartController();
  return OkStatus();
}

// All links between workers stand: what they take is not left behind by anything.
Status AwaitRelays(const ControllerAddress& address, const Plan& plan) {
  if (!plan.relays || plan.workers <= kRelayFanOut) return OkStatus();
  SessionOptions options;
  options.endpoint = address.endpoint;
  options.key = address.key;
  options.controller_key = address.controller_key;
  LOCKSTEP_ASSIGN_OR_RETURN(Session session, Session::Connect(options));
  const Deadline deadline = Deadline::After(kPatience);
  while (!deadline.Expired()) {
    LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
    LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, GetClusterStatus(address, kPatience));
    const auto below = std::count_if(status.workers.begin(), status.workers.end(),
                                     [](const WorkerStatus& worker) { return worker.by_relay; });
    if (below == plan.workers - kRelayFanOut) return session.Close();
  }
  return Violation("some workers get no commands from relays");
}

// Only the victim may have ended otherwise than well.
Status CheckStop(const Status& stopped, const Plan& plan) {
  if (!LosesForGood(plan.fault)) return stopped;
  for (int rank = 0; rank < plan.workers; ++rank) {
    const std::string name = "worker-" + std::to_string(rank) + " (process";
    if (rank != plan.victim && Message(stopped).find(name) != std::string::npos) return stopped;
  }
  return Message(stopped).find("controller (process") == std::string::npos ? OkStatus() : stopped;
}

// From the start of a cluster to its end.
Status RunCluster(const Plan& plan) {
  testing::ClusterOptions options;
  options.workers = plan.workers;
  options.controller.heartbeat_interval = kHeartbeat;
  options.controller.worker_timeout = plan.WorkerTimeout();
  options.controller.session_lease = plan.Lease();
  options.controller.command_rings = plan.rings ? "on" : "off";
  options.worker.command_rings = plan.rings ? "on" : "off";
  options.odd_by_socket = plan.mixed;
  options.keys = plan.keys;
  options.controller.relays_from = plan.relays ? 1 : 0;
  options.controller.relay_fan_out = kRelayFanOut;
  options.worker.arena_bytes = size_t{64} << 20;
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<Cluster> cluster,
      Cluster::Start(plan.processes ? ClusterKind::kTcpProcesses : ClusterKind::kTcpThreads,
                     options));
  LOCKSTEP_RETURN_IF_ERROR(AwaitRelays(cluster->address(), plan));
  std::vector<pid_t> pids = cluster->worker_pids();
  if (plan.processes) pids.push_back(cluster->controller_pid());
  const std::map<pid_t, size_t> descriptors = DescriptorsOf(RunningPids(*cluster, plan));
  std::set<std::string> segments = testing::SegmentsOf(plan.processes ? pids[0] : 0);

  Status status = RunClients(plan, cluster->address(), [&] { return Strike(*cluster, plan); });
  if (status.ok()) status = CheckAtRest(cluster->address(), plan);
  if (status.ok()) status = CheckDescriptorsOf(RunningPids(*cluster, plan), descriptors);

  if (plan.fault == Fault::kStop) kill(pids[static_cast<size_t>(plan.victim)], SIGCONT);
  if (plan.processes) {
    for (const pid_t pid : cluster->worker_pids()) {
      pids.push_back(pid);
      segments.merge(testing::SegmentsOf(pid));
    }
    pids.push_back(cluster->controller_pid());
  }
  status.Update(CheckStop(cluster->Stop(), plan));
  cluster.reset();
  if (!testing::AllGone(pids, Deadline::After(kPatience)))
    status.Update(Violation("processes are left"));
  if (!testing::NoneExists(segments)) status.Update(Violation("shared memory is left"));
  return status;
}

}  // namespace

Status RunRound(const Plan& plan) {
  const std::multiset<std::string> descriptors = OpenDescriptors();
  Status status;
  // On a thread of its own: what a thread keeps for itself until its end is nothing left behind.
  std::thread([&] { status = plan.hosts > 0 ? RunClusterOnHosts(plan) : RunCluster(plan); }).join();
  status.Update(CheckDescriptors(descriptors));
  return status;
}

}  // namespace lockstep::chaos
