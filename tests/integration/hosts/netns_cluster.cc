#include "tests/integration/hosts/netns_cluster.h"

#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "services/controller/settings.h"
#include "services/local/cluster_keys.h"
#include "services/worker/settings.h"

namespace lockstep::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// These hosts are the test's own, so any will do.
constexpr int kClientPort = 7400;
constexpr int kWorkerPort = 7401;
constexpr int kLivenessPort = 7402;

std::string NameOf(Rank rank) { return "worker-" + std::to_string(rank); }

}  // namespace

NetnsCluster::NetnsCluster(const NetnsClusterOptions& options)
    : options_(options), controller_host_(options.hosts), hosts_(options.hosts + 1) {
  auto directory = local::TemporaryDirectory::Create();
  if (!directory.ok()) std::abort();
  directory_ = *std::move(directory);
  keys_.ranks.resize(static_cast<size_t>(workers()));
  if (!local::MakeKeys(keys_, directory_->path()).ok()) std::abort();
  if (!options_.controller_name.empty()) MoveController(controller_host_);
}

void NetnsCluster::MoveController(int host) {
  controller_host_ = host;
  // Laid over what the machine has, in the hosts' own views of the file system. Written in place:
  // a mount is of a file, not of a name.
  const std::string names = directory_->path() + "/hosts";
  const bool is_new = !std::filesystem::exists(names);
  std::ofstream(names) << hosts_.Address(host) << ' ' << options_.controller_name << '\n';
  for (int i = 0; is_new && i <= options_.hosts; ++i) {
    if (!hosts_.Run(i, "mount --bind " + names + " /etc/hosts")) std::abort();
  }
}

std::string NetnsCluster::Endpoint(int port) const {
  const std::string host = options_.ipv6 ? "[" + hosts_.Address6(controller_host()) + "]"
                                         : hosts_.Address(controller_host());
  return "tcp://" + host + ":" + std::to_string(port);
}

Status NetnsCluster::Run(int host, const std::string& name, const std::string& program,
                         const std::string& settings) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path,
                            FindProgram("lockstep-" + program, "NOT_SET", "services/" + program));
  const std::string file = directory_->path() + "/" + name;
  std::ofstream(file + ".yaml") << settings;
  ChildOptions child;
  child.argv = hosts_.On(host, {path, "--config", file + ".yaml"});
  child.log_path = file + ".log";
  processes_.erase(name);
  LOCKSTEP_ASSIGN_OR_RETURN(auto process, ChildProcess::Spawn(child));
  processes_.emplace(name, std::move(process));
  return OkStatus();
}

Status NetnsCluster::StartController() {
  controller::ControllerOptions controller = options_.controller;
  controller.key = keys_.controller.key;
  controller.allowed_keys = keys_.controller.allowed_keys;
  controller.workers = workers();
  const auto listen = [&](int port) {
    return options_.controller_listens_everywhere ? "tcp://*:" + std::to_string(port)
                                                  : Endpoint(port);
  };
  controller.client_endpoint = listen(kClientPort);
  controller.worker_endpoint = listen(kWorkerPort);
  controller.liveness_endpoint = listen(kLivenessPort);
  return Run(controller_host(), "controller", "controller", controller::ToYaml(controller));
}

Status NetnsCluster::StartWorker(Rank rank) {
  worker::WorkerOptions worker = options_.worker;
  worker.key = keys_.ranks.front().key;
  worker.controller_key = keys_.ranks.front().controller_key;
  worker.controller_endpoint =
      options_.controller_name.empty()
          ? Endpoint(kWorkerPort)
          : "tcp://" + options_.controller_name + ":" + std::to_string(kWorkerPort);
  worker.rank = options_.assigned_ranks ? -1 : rank;
  return Run(HostOf(rank), NameOf(rank), "worker", worker::ToYaml(worker));
}

Status NetnsCluster::StartWorkersOf(int host) {
  for (const Rank rank : RanksOf(host)) LOCKSTEP_RETURN_IF_ERROR(StartWorker(rank));
  return OkStatus();
}

std::vector<Rank> NetnsCluster::RanksOf(int host) const {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < workers(); ++rank) {
    if (HostOf(rank) == host) ranks.push_back(rank);
  }
  return ranks;
}

Status NetnsCluster::Start() {
  LOCKSTEP_RETURN_IF_ERROR(StartController());
  for (int host = 0; host < options_.hosts; ++host) LOCKSTEP_RETURN_IF_ERROR(StartWorkersOf(host));
  return AwaitReady();
}

ControllerAddress NetnsCluster::address() const {
  const StatusOr<ControllerAddress> address = local::OperatorAddress(keys_, endpoint());
  if (!address.ok()) std::abort();
  return *address;
}

StatusOr<ClusterStatus> NetnsCluster::Ask() { return GetClusterStatus(address(), seconds(5)); }

Status NetnsCluster::AwaitReady(milliseconds patience) {
  const Deadline deadline = Deadline::After(patience);
  while (true) {
    const StatusOr<ClusterStatus> status = Ask();
    if (status.ok() && status->IsReady()) return OkStatus();
    if (deadline.Expired()) {
      std::ostringstream why;
      if (!status.ok()) why << status.status();
      for (Rank rank = 0; status.ok() && rank < workers(); ++rank) {
        const WorkerStatus& worker = status->workers[static_cast<size_t>(rank)];
        why << "; rank " << rank << " " << Name(worker.state) << " " << worker.connection
            << worker.reason;
      }
      for (const auto& [name, process] : processes_) why << "\n" << name << ":\n" << LogOf(name);
      return DeadlineExceeded("the cluster is not ready: ", why.str());
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

StatusOr<Session> NetnsCluster::Connect(SessionOptions options) {
  options.Reach(address());
  return Session::Connect(options);
}

pid_t NetnsCluster::PidOf(const ChildProcess& process) {
  const std::string parent = std::to_string(process.pid());
  std::ifstream children("/proc/" + parent + "/task/" + parent + "/children");
  pid_t child = -1;
  return children >> child ? child : -1;
}

std::map<std::string, pid_t> NetnsCluster::Pids() const {
  std::map<std::string, pid_t> pids;
  for (const auto& [name, process] : processes_) pids[name] = PidOf(process);
  return pids;
}

void NetnsCluster::Kill(const std::string& name) {
  const auto found = processes_.find(name);
  if (found == processes_.end()) return;
  const pid_t pid = PidOf(found->second);
  if (pid > 0) kill(pid, SIGKILL);
  (void)found->second.WaitOrKill(Deadline::After(seconds(5)));
  processes_.erase(found);
}

void NetnsCluster::KillHost(int host) {
  hosts_.Kill(host);
  for (const Rank rank : RanksOf(host)) Kill(NameOf(rank));
  if (host == controller_host()) KillController();
}

StatusOr<ExitStatus> NetnsCluster::AwaitEnd(const std::string& name) {
  const auto found = processes_.find(name);
  if (found == processes_.end()) return NotFound("there is no ", name);
  const StatusOr<ExitStatus> ended = found->second.Wait(Deadline::After(seconds(30)));
  if (!ended.ok()) return Annotate(ended.status(), name + " has logged:\n" + LogOf(name));
  return ended;
}

Status NetnsCluster::AwaitAllEnds() {
  Status status;
  for (const auto& [name, process] : processes_) status.Update(AwaitEnd(name).status());
  return status;
}

Status NetnsCluster::Stop() {
  LOCKSTEP_RETURN_IF_ERROR(ShutdownCluster(address(), "the test is over", seconds(20)));
  Status status;
  for (const auto& [name, process] : processes_) {
    const StatusOr<ExitStatus> ended = AwaitEnd(name);
    status.Update(ended.status());
    if (ended.ok() && !ended->ok()) {
      status.Update(Internal(name, " ", ended->Describe(), " and has logged:\n", LogOf(name)));
    }
  }
  return status;
}

void NetnsCluster::KillController() { Kill("controller"); }
void NetnsCluster::KillWorker(Rank rank) { Kill(NameOf(rank)); }

std::string NetnsCluster::LogOf(const std::string& name) const {
  std::ifstream file(directory_->path() + "/" + name + ".log");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace lockstep::testing
