#include "tests/chaos/round.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/client/admin.h"
#include "tests/chaos/client.h"
#include "tests/chaos/faults.h"
#include "tests/integration/cluster.h"
#include "tests/integration/process_watch.h"
#include "tests/integration/wire_client.h"

namespace lockstep::chaos {
namespace {

using namespace std::chrono_literals;
using testing::Cluster;
using testing::ClusterKind;

constexpr auto kHeartbeat = 100ms;
constexpr auto kWorkerTimeout = 600ms;
constexpr auto kLease = 1500ms;
constexpr auto kPatience = 10s;

// What the descriptors of this process refer to.
std::multiset<std::string> OpenDescriptors() {
  std::multiset<std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the one that reads the directory
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    // Sockets and the like have numbers of their own: what counts is how many there are.
    if (!gone) open.insert(target.substr(0, target.find_first_of("[0123456789")));
  }
  return open;
}

Status CheckDescriptors(const std::multiset<std::string>& before) {
  const std::multiset<std::string> after = OpenDescriptors();
  std::string left;
  std::vector<std::string> added;
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(),
                      std::back_inserter(added));
  for (const std::string& name : added) left += " " + name;
  return left.empty() ? OkStatus() : Violation("descriptors of this process are left:", left);
}

// How many descriptors each process of the cluster has open.
std::map<pid_t, size_t> DescriptorsOf(const Cluster& cluster, const Plan& plan) {
  std::map<pid_t, size_t> counts;
  if (!plan.processes) return counts;
  std::vector<pid_t> pids = cluster.worker_pids();
  if (plan.fault == Fault::kStop) pids.erase(pids.begin() + plan.victim);
  pids.push_back(cluster.controller_pid());
  for (const pid_t pid : pids) {
    std::error_code gone;
    const std::filesystem::directory_iterator open("/proc/" + std::to_string(pid) + "/fd", gone);
    if (!gone) counts[pid] = static_cast<size_t>(std::distance(begin(open), end(open)));
  }
  return counts;
}

// Those that are the same as before, and are not frozen, have no more open than then.
Status CheckDescriptorsOf(const Cluster& cluster, const Plan& plan,
                          const std::map<pid_t, size_t>& before) {
  const Deadline deadline = Deadline::After(kPatience);
  while (true) {
    std::string more;
    for (const auto& [pid, count] : DescriptorsOf(cluster, plan)) {
      const auto was = before.find(pid);
      if (was == before.end() || count <= was->second) continue;
      more += " process " + std::to_string(pid) + " has " + std::to_string(count) + ", had " +
              std::to_string(was->second) + ";";
    }
    if (more.empty()) return OkStatus();
    if (deadline.Expired()) return Violation("descriptors of services are left:", more);
    std::this_thread::sleep_for(5ms);
  }
}

// The cluster's status once `found`; an error if that takes too long.
template <typename Found>
Status Await(Cluster& cluster, const std::string& what, Found found) {
  const Deadline deadline = Deadline::After(kPatience);
  while (true) {
    LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status,
                              GetClusterStatus(cluster.endpoint(), kPatience));
    if (found(status)) return OkStatus();
    if (deadline.Expired()) return Violation(what);
    std::this_thread::sleep_for(5ms);
  }
}

// All sessions are closed, or their clients are gone: nothing of them is left, and whoever the
// fault did not concern is ready for others.
Status CheckAtRest(Cluster& cluster, const Plan& plan) {
  const bool victim_is_lost = LosesForGood(plan.fault);
  LOCKSTEP_RETURN_IF_ERROR(Await(cluster, "sessions are left",
                                 [](const ClusterStatus& now) { return now.sessions.empty(); }));
  return Await(cluster, "a worker is disturbed, or holds registers of nobody",
               [&](const ClusterStatus& now) {
                 for (const WorkerStatus& worker : now.workers) {
                   const bool lost = victim_is_lost && worker.rank == plan.victim;
                   if (lost != (worker.state == WorkerState::kLost)) return false;
                   if (lost) continue;
                   if (worker.state != WorkerState::kReady) return false;
                   if (worker.activity.registers + worker.activity.tensor_bytes > 0) return false;
                 }
                 return true;
               });
}

// Opens a session, has a tensor made that nobody frees, and is gone.
void Vanish(Cluster& cluster) {
  testing::WireClient client(cluster.endpoint());
  if (!client.Open().ok()) return;
  control::BatchWriter writer;
  (void)writer.Add([](wire::Command::Builder command) {
    auto empty = command.initEmpty();
    empty.initShape(1).set(0, 1 << 20);
    empty.setDtype(wire::DType::UINT8);
    empty.setResult(RegisterId{0, 1}.Packed());
  });
  client.SendBatch(client.session(), writer.Take());
}

// Brings the fault about that hits all, at a moment of chance.
Status Strike(Cluster& cluster, const Plan& plan) {
  if (!HitsAll(plan.fault)) return OkStatus();
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
    // Somebody has noticed, or nobody.
    std::this_thread::sleep_for(std::chrono::milliseconds(plan.seed % 7 * 20));
  }
  if (plan.fault == Fault::kReplace) return cluster.ReplaceWorker(plan.victim);
  if (plan.fault == Fault::kRestart) return cluster.RestartController();
  return OkStatus();
}

Status RunClients(Cluster& cluster, const Plan& plan) {
  support::TcpProxy wire(cluster.endpoint());
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < plan.sessions; ++i) {
    const std::string name = "chaos " + std::to_string(i);
    LOCKSTEP_ASSIGN_OR_RETURN(
        auto client, Client::Start(cluster, name, plan.seed * 100 + static_cast<uint64_t>(i),
                                   HitsTheWire(plan.fault) && i == 0 ? &wire : nullptr));
    clients.push_back(std::move(client));
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const bool concerned = i == 0 || HitsAll(plan.fault);
    clients[i]->Run([&plan, concerned](Client& client) {
      return concerned ? RunFault(client, plan) : RunToTheEnd(client, 2 * plan.steps);
    });
  }
  if (plan.fault == Fault::kVanish) Vanish(cluster);
  Status status = Strike(cluster, plan);
  for (size_t i = 0; i < clients.size(); ++i) {
    const Status result = clients[i]->Join();
    const std::string who = "session " + std::to_string(i);
    if (!result.ok()) status.Update(Annotate(result, who));
    const Status closed = clients[i]->Timed([&] { return clients[i]->session.Close(); });
    // One that has lost a worker for good says so.
    if (!LosesForGood(plan.fault)) status.Update(Annotate(closed, who));
    if (!clients[i]->violation.ok()) status.Update(Annotate(clients[i]->violation, who));
  }
  return status;
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
  options.controller.worker_timeout = kWorkerTimeout;
  options.controller.session_lease = kLease;
  options.worker.arena_bytes = size_t{64} << 20;
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::unique_ptr<Cluster> cluster,
      Cluster::Start(plan.processes ? ClusterKind::kTcpProcesses : ClusterKind::kTcpThreads,
                     options));
  std::vector<pid_t> pids = cluster->worker_pids();
  if (plan.processes) pids.push_back(cluster->controller_pid());
  const std::map<pid_t, size_t> descriptors = DescriptorsOf(*cluster, plan);
  std::set<std::string> segments = testing::SegmentsOf(plan.processes ? pids[0] : 0);

  Status status = RunClients(*cluster, plan);
  if (status.ok()) status = CheckAtRest(*cluster, plan);
  if (status.ok()) status = CheckDescriptorsOf(*cluster, plan, descriptors);

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
  std::thread([&] { status = RunCluster(plan); }).join();
  status.Update(CheckDescriptors(descriptors));
  return status;
}

}  // namespace lockstep::chaos
