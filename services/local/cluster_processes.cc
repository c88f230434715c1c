#include "services/local/cluster_processes.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "runtime/client/admin.h"
#include "runtime/client/status_query.h"
#include "runtime/control/local_address.h"
#include "services/config/endpoint.h"
#include "services/config/yaml.h"
#include "services/controller/settings.h"
#include "services/local/cluster_keys.h"
#include "services/local/remote_command.h"
#include "services/worker/settings.h"

namespace lockstep::local {
namespace {

using namespace std::chrono_literals;

// How often the start is looked at: short, because that is what a start takes longer on average.
constexpr auto kPollInterval = 3ms;
// What a stop may take: until the controller agrees, until all have ended, until SIGTERM has
// worked.
constexpr auto kShutdownPatience = 1s;
constexpr auto kEndPatience = 2s;
// What stands for a worker on another host ends that one first, or the way there; and a process on
// a busy host takes its time to end.
constexpr auto kTermPatience = 3s;

// Logins at one host at a time: sshd begins to turn them away at ten.
constexpr int kLoginsAtOnce = 8;

bool IsAnyPort(const std::string& endpoint) {
  return endpoint.rfind("tcp://", 0) == 0 && (endpoint.ends_with(":*") || endpoint.ends_with(":0"));
}

std::string EndpointsFile(const std::string& directory) { return directory + "/endpoints.yaml"; }

}  // namespace

StatusOr<std::unique_ptr<ClusterProcesses>> ClusterProcesses::Start(
    const ClusterProcessesOptions& options, int cancel_fd) {
  const Deadline deadline = Deadline::After(options.start_timeout);
  // What has been started is stopped by the destructor if anything below fails.
  std::unique_ptr<ClusterProcesses> cluster(new ClusterProcesses(options));
  LOCKSTEP_RETURN_IF_ERROR(cluster->FindPrograms());
  LOCKSTEP_RETURN_IF_ERROR(cluster->ChooseEndpoints());
  LOCKSTEP_RETURN_IF_ERROR(MakeKeysIfNeeded(cluster->options_.cluster, options.directory));
  LOCKSTEP_ASSIGN_OR_RETURN(ServiceProcess controller, cluster->StartController());
  cluster->controller_.push_back(std::move(controller));
  // Workers start while the controller does, unless only the controller can tell its port, or its
  // address as others see it.
  const ClusterOptions& config = cluster->options_.cluster;
  const bool is_known = !IsAnyPort(config.controller.worker_endpoint) && !config.HasOtherHosts();
  if (is_known) LOCKSTEP_RETURN_IF_ERROR(cluster->StartWorkers());
  LOCKSTEP_RETURN_IF_ERROR(cluster->ReadEndpoints(deadline, cancel_fd));
  if (!is_known) LOCKSTEP_RETURN_IF_ERROR(cluster->StartWorkers());
  LOCKSTEP_RETURN_IF_ERROR(cluster->WaitUntilReady(deadline, cancel_fd));
  return cluster;
}

Status ClusterProcesses::FindPrograms() {
  if (options_.controller_program.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        options_.controller_program,
        FindProgram("lockstep-controller", "LOCKSTEP_CONTROLLER", "services/controller"));
  }
  if (options_.worker_program.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(options_.worker_program,
                              FindProgram("lockstep-worker", "LOCKSTEP_WORKER", "services/worker"));
  }
  if (!options_.cluster.HasOtherHosts()) return OkStatus();
  if (options_.remote_worker_program.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        options_.remote_worker_program,
        FindProgram("lockstep-remote-worker", "LOCKSTEP_REMOTE_WORKER", "services/remote"));
  }
  return FindSsh();
}

Status ClusterProcesses::FindSsh() {
  std::string& program = options_.cluster.ssh.front();
  const bool is_path = program.find('/') != std::string::npos;
  const std::string found = is_path ? program : FindInPath(program);
  if (!found.empty() && access(found.c_str(), X_OK) == 0) {
    program = found;
    return OkStatus();
  }
  return NotFound("cannot execute \"", program, "\", which leads to the other hosts: ",
                  is_path ? "there is no such program" : "it is not in PATH",
                  "; install it, or set ssh");
}

ClusterProcesses::~ClusterProcesses() { (void)Stop("the cluster's owner has ended"); }

Status ClusterProcesses::ChooseEndpoints() {
  controller::ControllerOptions& controller = options_.cluster.controller;
  const auto choose = [this](std::string& endpoint, const std::string& file) -> Status {
    if (!endpoint.empty()) return OkStatus();
    LOCKSTEP_ASSIGN_OR_RETURN(endpoint, config::IpcEndpoint(options_.directory + "/" + file));
    return OkStatus();
  };
  LOCKSTEP_RETURN_IF_ERROR(choose(controller.client_endpoint, "client.sock"));
  LOCKSTEP_RETURN_IF_ERROR(choose(controller.worker_endpoint, "worker.sock"));
  if (options_.cluster.HasOtherHosts() && controller.liveness_endpoint.empty()) {
    const std::string& beside = controller.worker_endpoint;
    controller.liveness_endpoint = beside.substr(0, beside.rfind(':')) + ":*";
  }
  LOCKSTEP_RETURN_IF_ERROR(choose(controller.liveness_endpoint, "liveness.sock"));
  // The run directory is here only. Where clients may be elsewhere, too, a port is the worker's
  // own choice.
  const bool clients_are_here =
      !options_.cluster.HasOtherHosts() || config::StaysOnThisHost(controller.client_endpoint);
  for (worker::WorkerOptions& worker : options_.cluster.ranks) {
    if (!clients_are_here || !options_.cluster.HostOf(worker.rank).IsThisHost()) continue;
    LOCKSTEP_RETURN_IF_ERROR(
        choose(worker.bulk_endpoint, "bulk-" + std::to_string(worker.rank) + ".sock"));
  }
  return OkStatus();
}

StatusOr<ServiceProcess> ClusterProcesses::StartController() {
  const std::string endpoints_file = EndpointsFile(options_.directory);
  unlink(endpoints_file.c_str());  // an earlier controller's
  return ServiceProcess::Start({.role = "controller",
                                .program = options_.controller_program,
                                .directory = options_.directory,
                                .settings = controller::ToYaml(options_.cluster.controller),
                                .arguments = {"--write-endpoints", endpoints_file},
                                .detached = options_.detached});
}

StatusOr<ServiceProcess> ClusterProcesses::StartWorker(const worker::WorkerOptions& worker) {
  ServiceProcessOptions process{.role = "worker-" + std::to_string(worker.rank),
                                .program = options_.worker_program,
                                .directory = options_.directory,
                                .settings = worker::ToYaml(worker),
                                .arguments = {},
                                .detached = options_.detached};
  const HostOptions& host = options_.cluster.HostOf(worker.rank);
  if (!host.IsThisHost()) {
    process.remote_host = host.host;
    process.program = options_.remote_worker_program;
    process.arguments = {"--host", host.host, "--login-slot", LoginSlotOf(worker.rank), "--"};
    for (std::string& word : RemoteCommand(options_.cluster.ssh, host.host, host.program)) {
      process.arguments.push_back(std::move(word));
    }
  }
  return ServiceProcess::Start(process);
}

Status ClusterProcesses::StartWorkers() {
  for (worker::WorkerOptions& worker : options_.cluster.ranks) {
    worker.controller_endpoint = options_.cluster.controller.worker_endpoint;
    LOCKSTEP_ASSIGN_OR_RETURN(ServiceProcess process, StartWorker(worker));
    workers_.push_back(std::move(process));
  }
  return OkStatus();
}

Status ClusterProcesses::ReplaceWorker(Rank rank) {
  if (rank < 0 || rank >= static_cast<Rank>(workers_.size())) {
    return OutOfRange("there is no rank ", rank, "; the ranks are 0 to ", workers_.size() - 1);
  }
  ServiceProcess& old = workers_[static_cast<size_t>(rank)];
  (void)old.WaitOrKill(Deadline::After(0s));
  LOCKSTEP_ASSIGN_OR_RETURN(old, StartWorker(options_.cluster.ranks[static_cast<size_t>(rank)]));
  return OkStatus();
}

Status ClusterProcesses::RestartController() {
  ServiceProcess& old = controller_.front();
  (void)old.WaitOrKill(Deadline::After(0s));
  LOCKSTEP_ASSIGN_OR_RETURN(old, StartController());
  return OkStatus();
}

Status ClusterProcesses::ReadEndpoints(Deadline deadline, int cancel_fd) {
  const std::string path = EndpointsFile(options_.directory);
  while (access(path.c_str(), R_OK) != 0) {
    LOCKSTEP_RETURN_IF_ERROR(Watch(kPollInterval, cancel_fd));
    if (deadline.Expired()) {
      return DeadlineExceeded("the controller did not listen in time; see ", options_.directory,
                              "/controller.log");
    }
  }
  config::Problems problems;
  for (const config::Entry& entry : config::ReadYamlFile(path, problems)) {
    // Ports are fixed from now on: a controller that is started again is looked for there.
    controller::ControllerOptions& controller = options_.cluster.controller;
    if (entry.key == "client_endpoint") controller.client_endpoint = entry.value.Text();
    if (entry.key == "worker_endpoint") controller.worker_endpoint = entry.value.Text();
    if (entry.key == "liveness_endpoint") controller.liveness_endpoint = entry.value.Text();
    if (entry.key == "metrics_endpoint") controller.metrics_endpoint = entry.value.Text();
  }
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  const std::string endpoint = control::FromThisHost(options_.cluster.controller.client_endpoint);
  LOCKSTEP_ASSIGN_OR_RETURN(address_, OperatorAddress(options_.cluster, endpoint));
  return OkStatus();
}

Status ClusterProcesses::WaitUntilReady(Deadline deadline, int cancel_fd) {
  std::optional<ClusterStatus> last;
  // Over one connection: another one for each question would take time from what is starting.
  client::StatusQuery query(address_);
  while (true) {
    // As much for the last question as for others: the deadline's rest may be too short for an
    // answer.
    const StatusOr<ClusterStatus> status = query.Ask(200ms);
    if (status.ok()) last = *status;
    if (last.has_value() && last->IsReady()) return OkStatus();
    LOCKSTEP_RETURN_IF_ERROR(Watch(kPollInterval, cancel_fd));
    if (!deadline.Expired()) continue;
    if (!last.has_value()) return Annotate(status.status(), "the cluster is not ready in time");
    std::string waiting;
    for (const WorkerStatus& worker : last->workers) {
      if (worker.state == WorkerState::kReady) continue;
      const std::string& why = worker.reason.empty() ? worker.connection : worker.reason;
      waiting += " rank " + std::to_string(worker.rank) + HostSuffix(worker.rank) + " is " +
                 std::string(Name(worker.state)) + (why.empty() ? ";" : " (" + why + ");");
    }
    return DeadlineExceeded("the cluster is not ready in time:", waiting, " the logs are in ",
                            options_.directory);
  }
}

std::string ClusterProcesses::LoginSlotOf(Rank rank) const {
  const std::vector<HostOptions>& hosts = options_.cluster.hosts;
  const std::string& name = options_.cluster.HostOf(rank).host;
  const auto first =
      std::find_if(hosts.begin(), hosts.end(), [&](const auto& host) { return host.host == name; });
  return options_.directory + "/login-" + std::to_string(first - hosts.begin()) + "-" +
         std::to_string(rank % kLoginsAtOnce) + ".lock";
}

std::string ClusterProcesses::HostSuffix(Rank rank) const {
  const HostOptions& host = options_.cluster.HostOf(rank);
  return host.IsThisHost() ? "" : " (" + host.host + ")";
}

Status ClusterProcesses::Watch(std::chrono::milliseconds pause, int cancel_fd) {
  const Status status = WaitForEnd(Deadline::After(pause), cancel_fd);
  if (status.ok()) return Aborted("the cluster was shut down while it was starting");
  return status.code() == StatusCode::kDeadlineExceeded ? OkStatus() : status;
}

bool ClusterProcesses::WasShutDown(const ServiceProcess& ended) {
  if (!ended.EndedInOrder()) return false;
  // The workers end first, and the controller, which waits for them, soon after.
  const auto controller = controller_.front().child().Wait(Deadline::After(kShutdownPatience));
  return controller.ok() && controller->ok();
}

std::vector<pid_t> ClusterProcesses::worker_pids() const {
  std::vector<pid_t> pids;
  for (const ServiceProcess& worker : workers_) pids.push_back(worker.pid());
  return pids;
}

Status ClusterProcesses::WaitForEnd(Deadline deadline, int cancel_fd) {
  while (true) {
    std::vector<pollfd> watched = {{cancel_fd, POLLIN, 0}};
    for (std::vector<ServiceProcess>* processes : {&controller_, &workers_}) {
      for (ServiceProcess& process : *processes) {
        if (process.reported()) continue;
        const Status end = process.CheckRunning();
        if (!end.ok()) return WasShutDown(process) ? OkStatus() : end;
        watched.push_back({process.child().pidfd(), POLLIN, 0});
      }
    }
    if (deadline.Expired()) return DeadlineExceeded("all processes still run");
    poll(watched.data(), watched.size(), deadline.RemainingMillis());
    if (watched[0].revents != 0) return Status(StatusCode::kCancelled, "the wait was cancelled");
  }
}

Status ClusterProcesses::Stop(const std::string& reason) {
  const bool can_ask =
      !endpoint().empty() && !controller_.empty() && controller_.front().child().Running();
  if (can_ask && ShutdownCluster(address_, reason, kShutdownPatience).ok()) {
    const Deadline patience = Deadline::After(kEndPatience);
    WaitForAll(workers_, patience);
    WaitForAll(controller_, patience);
  }
  // What the controller could not stop gets the signals.
  const Deadline patience = Deadline::After(kTermPatience);
  const Status workers = TerminateAll(workers_, patience);
  const Status controller = TerminateAll(controller_, patience);
  address_ = ControllerAddress();
  workers_.clear();
  controller_.clear();
  return workers.ok() ? controller : workers;
}

void ClusterProcesses::Release() {
  for (std::vector<ServiceProcess>* processes : {&controller_, &workers_}) {
    for (ServiceProcess& process : *processes) process.child().Release();
    processes->clear();
  }
}

}  // namespace lockstep::local
