#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/host_identity.h"
#include "runtime/base/quantity.h"
#include "runtime/base/rank_text.h"
#include "runtime/client/admin.h"
#include "runtime/control/local_address.h"
#include "services/config/service_settings.h"
#include "services/local/cluster_config.h"
#include "services/local/cluster_processes.h"
#include "services/local/start_again.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/progress.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/value_text.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

constexpr char kController[] = "controller";

struct UpCommand {
  std::string file;
  std::optional<int> workers;
  std::string name;
  bool detach = false;
  std::vector<std::string> settings;
  std::string run_directory;
  std::vector<std::string> module_path;
  double timeout_seconds = 30;
  OutputFormat format = OutputFormat::kTable;
};

// The file, then --set, then the flags, which are short for --set.
StatusOr<local::ClusterOptions> LoadOptions(const UpCommand& command) {
  config::Sources sources{command.file, command.settings};
  if (command.workers.has_value()) {
    sources.assignments.push_back("workers=" + std::to_string(*command.workers));
  }
  if (!command.name.empty()) sources.assignments.push_back("cluster=" + command.name);
  StatusOr<local::ClusterOptions> options = local::LoadCluster(sources);
  if (!options.ok()) return WithExitCode(options.status(), ExitCode::kUsage);
  // Added to the file's directories, not put in their place.
  for (const std::string& directory : command.module_path) {
    const std::string path = std::filesystem::absolute(directory).string();
    options->worker.module_path.push_back(path);
    for (auto& rank : options->ranks) rank.module_path.push_back(path);
  }
  return options;
}

// What `lockstep status` and errors say of a lost worker, unless the file says something else.
void SetReplacementHint(local::ClusterOptions& cluster) {
  std::string& hint = cluster.controller.replacement_hint;
  if (hint != local::ClusterOptions().controller.replacement_hint) return;
  hint = "run `lockstep up --name " + cluster.cluster + "` to start it again";
  if (!cluster.HasOtherHosts()) return;
  hint +=
      " if it ran on the controller's host; workers of other hosts come back with a new cluster";
}

// Refuses to start a cluster that runs; tells what is in the way if a worker of it is lost although
// its process is there, as of one that is stopped.
Status AlreadyRuns(const ClusterRecord& record) {
  std::string lost;
  const StatusOr<ClusterStatus> status =
      GetClusterStatus(record.controller, std::chrono::seconds(1));
  for (size_t rank = 0; status.ok() && rank < status->workers.size(); ++rank) {
    if (status->workers[rank].state != WorkerState::kLost) continue;
    lost += "; rank " + std::to_string(rank) + " is lost although its process is there: `kill -9 " +
            std::to_string(status->workers[rank].pid) + "`, and then this command, start it again";
  }
  return AlreadyExists("a cluster \"", record.name, "\" already runs (", record.workers,
                       " workers, controller pid ", record.processes.front().pid,
                       "); stop it with `lockstep down ", record.name,
                       "`, or choose another --name", lost);
}

// The cluster of this name some of whose processes have ended while others still run, if there is
// one. Refuses one of which all run; removes what a dead one left.
StatusOr<std::optional<ClusterRecord>> FindBroken(const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<ClusterRecord> old, ReadRecord(name));
  if (!old.has_value()) return old;
  if (!old->IsAlive()) {
    LOCKSTEP_RETURN_IF_ERROR(RemoveCluster(*old));
    return std::optional<ClusterRecord>();
  }
  if (!old->HasController() || old->CountAliveWorkers() < old->workers) return old;
  return AlreadyRuns(*old);
}

// A directory for sockets and logs that holds nothing else, because `down` removes it.
StatusOr<std::string> PrepareRunDirectory(const UpCommand& command, const std::string& name) {
  const std::string path = command.run_directory.empty()
                               ? DefaultRunDirectory(name)
                               : std::filesystem::absolute(command.run_directory).string();
  LOCKSTEP_RETURN_IF_ERROR(command.run_directory.empty() ? MakeDefaultRunDirectory(name)
                                                         : MakePrivateDirectory(path));
  if (command.run_directory.empty()) {
    // Left over from a start that was killed before it wrote its record.
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
      std::filesystem::remove_all(entry.path(), error);
    }
    if (error) return Internal("cannot empty ", path, ": ", error.message());
  } else if (!std::filesystem::is_empty(path)) {
    return UsageError(path, " is not empty; `lockstep down` would remove what is in it");
  }
  return path;
}

StatusOr<ClusterRecord> Record(const local::ClusterOptions& cluster, const std::string& directory,
                               const local::ClusterProcesses& processes) {
  ClusterRecord record;
  record.name = cluster.cluster;
  record.controller = processes.address();
  record.directory = directory;
  LOCKSTEP_ASSIGN_OR_RETURN(ProcessRecord controller,
                            RecordProcess(kController, processes.controller_pid()));
  record.processes.push_back(std::move(controller));
  for (pid_t pid : processes.worker_pids()) {
    const local::HostOptions& host = cluster.HostOf(record.workers);
    const std::string role =
        "worker-" + std::to_string(record.workers) + (host.IsThisHost() ? "" : " on " + host.host);
    LOCKSTEP_ASSIGN_OR_RETURN(ProcessRecord worker, RecordProcess(role, pid));
    record.processes.push_back(std::move(worker));
    ++record.workers;
  }
  return record;
}

// Which ranks run on which host, in their order; a host may come more than once.
std::vector<std::pair<std::string, std::vector<Rank>>> RanksByHost(
    const local::ClusterOptions& cluster) {
  std::vector<std::pair<std::string, std::vector<Rank>>> hosts;
  Rank next = 0;
  for (const local::HostOptions& host : cluster.hosts) {
    std::vector<Rank>& ranks = hosts.emplace_back(host.host, std::vector<Rank>()).second;
    for (int i = 0; i < host.workers; ++i) ranks.push_back(next++);
  }
  return hosts;
}

std::string DescribeHosts(const local::ClusterOptions& cluster) {
  std::string text;
  for (const auto& [host, ranks] : RanksByHost(cluster)) {
    text += (text.empty() ? "" : ", ") + host + " (" + ListRanks(ranks) + ")";
  }
  return text;
}

// Where clients of other hosts connect, if the controller listens for them at all addresses; else
// empty. `endpoint`: where those of this host do, with the port.
std::string EndpointElsewhere(const decltype(local::ClusterOptions::controller)& controller,
                              const std::string& endpoint) {
  if (!control::IsAnyAddress(control::HostOf(controller.client_endpoint))) return "";
  const std::string& name = controller.advertise_address;
  return control::WithHost(endpoint, name.empty() ? ThisHost().name : name);
}

// "controller (process 17), worker-1 (process 18)"
std::string DescribeStartedAgain(const std::vector<ProcessRecord>& started) {
  std::string text;
  for (const ProcessRecord& process : started) {
    text += (text.empty() ? "" : ", ") + process.role + " (process " + std::to_string(process.pid) +
            ")";
  }
  return text;
}

// `started_again`: of a cluster that runs already, else none.
void Announce(const UpCommand& command, const local::ClusterOptions& cluster,
              const ClusterRecord& record, const std::vector<ProcessRecord>& started_again,
              std::chrono::milliseconds duration) {
  const bool is_repaired = !started_again.empty();
  const bool taken_over = is_repaired && started_again.front().role == kController;
  if (command.format == OutputFormat::kJson) {
    Json pids = Json::array();
    for (size_t i = 1; i < record.processes.size(); ++i) pids.push_back(record.processes[i].pid);
    Json roles = Json::array();
    for (const ProcessRecord& process : started_again) roles.push_back(process.role);
    Json hosts = Json::array();
    for (const auto& [host, ranks] : RanksByHost(cluster)) {
      hosts.push_back({{"host", host}, {"ranks", ranks}});
    }
    std::cout << Json{{"cluster", record.name},
                      {"endpoint", record.controller.endpoint},
                      {"key", record.controller.key},
                      {"controller_key", record.controller.controller_key},
                      {"run_dir", record.directory},
                      {"controller_pid", record.processes.front().pid},
                      {"worker_pids", pids},
                      {"hosts", hosts},
                      {"taken_over", taken_over},
                      {"started_again", roles},
                      {"milliseconds", duration.count()}}
                     .dump(2)
              << '\n'
              << std::flush;
    return;
  }
  const text::Style style = text::Style::For(STDOUT_FILENO);
  const auto line = [&](const char* label, const std::string& text) {
    std::cout << style.Paint(text::Tint::kDim, label) << text << '\n';
  };
  std::cout << style.Paint(text::Tint::kGreen, taken_over    ? "taken over"
                                               : is_repaired ? "whole again"
                                                             : "ready     ")
            << (is_repaired ? " " : "") << style.Paint(text::Tint::kBold, record.name) << ": "
            << text::Plural(static_cast<uint64_t>(record.workers), "worker") << " in "
            << RoundedDuration(duration) << '\n';
  if (cluster.HasOtherHosts()) line("hosts     ", DescribeHosts(cluster));
  line("connect   ", record.controller.endpoint);
  const std::string elsewhere = EndpointElsewhere(cluster.controller, record.controller.endpoint);
  if (!elsewhere.empty()) line("          ", elsewhere + " from other hosts");
  if (!record.controller.key.empty()) {
    line("          ", "--key " + record.controller.key + " --controller-key " +
                           record.controller.controller_key);
  }
  line("logs      ", record.directory);
  line("look      ", "lockstep status --name " + record.name);
  if (is_repaired) {
    line("          ", "what had ended was started again, with the configuration that it had: " +
                           DescribeStartedAgain(started_again));
  }
  line("stop      ", command.detach || is_repaired ? "lockstep down " + record.name : "press ^C");
  std::cout.flush();
}

// Removes what is left of a cluster that has ended. If `lockstep down` has ended it, then that
// holds the lock and removes everything itself, and the name may be another cluster's by now.
Status RemoveEndedCluster(const ClusterRecord& record) {
  const StatusOr<ClusterLock> lock = ClusterLock::Acquire(record.name);
  if (lock.status().code() == StatusCode::kFailedPrecondition) return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(lock.status());
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<ClusterRecord> now, ReadRecord(record.name));
  if (!now.has_value() || now->IsAlive()) return OkStatus();
  return RemoveCluster(record);
}

// Until ^C, or until the controller ends. The cluster lives on without a worker that is lost.
Status RunUntilStopped(const ClusterRecord& record, local::ClusterProcesses& processes,
                       const InterruptGuard& interrupt) {
  Status ended = OkStatus();
  while (ended.ok()) {
    const Deadline far_away = Deadline::After(std::chrono::hours(24 * 365));
    const Status event = processes.WaitForEnd(far_away, interrupt.fd());
    if (event.code() == StatusCode::kCancelled) break;
    if (event.code() == StatusCode::kDeadlineExceeded) continue;
    if (event.ok()) {
      LOCKSTEP_RETURN_IF_ERROR(processes.Stop("the cluster was shut down"));
      std::cout << record.name << " was shut down by another command\n";
      return RemoveEndedCluster(record);
    }
    if (record.processes.front().IsAlive()) {
      text::Warn(Message(event) + "; `lockstep up --name " + record.name +
                 "`, in another terminal, starts it again");
    } else {
      ended = event;
    }
  }
  Status stopped = OkStatus();
  {
    const Spinner spinner("stopping " + record.name, CanShowProgress());
    stopped = processes.Stop("lockstep up was interrupted");
  }
  // The logs of a cluster that broke are worth keeping: `down` or the next `up` removes them.
  if (!ended.ok())
    return Annotate(ended, "the cluster has ended; its logs are in " + record.directory);
  LOCKSTEP_RETURN_IF_ERROR(RemoveEndedCluster(record));
  return stopped;
}

// Leaves nothing of a start that ^C has ended, whether it had come to its end or not.
Status Interrupted(StatusOr<std::unique_ptr<local::ClusterProcesses>> processes,
                   const std::string& directory, InterruptGuard& interrupt) {
  if (processes.ok()) LOCKSTEP_RETURN_IF_ERROR((*processes)->Stop("lockstep up was interrupted"));
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  interrupt.Take();  // more of the same while it was being stopped
  return WithExitCode(Status(StatusCode::kCancelled,
                             "interrupted while the cluster was starting; what had been started "
                             "is stopped again"),
                      ExitCode::kInterrupted);
}

// Starts those processes of `record` again that have ended, with the configuration that they had:
// the controller where it was, so that workers that still run come back to it by themselves. The
// record has the new ones then, also after an error.
StatusOr<std::vector<ProcessRecord>> StartEndedProcesses(ClusterRecord& record) {
  std::vector<ProcessRecord> started;
  Status status = OkStatus();
  for (ProcessRecord& process : record.processes) {
    if (process.IsAlive()) continue;
    StatusOr<local::ServiceProcess> again = local::StartAgain(record.directory, process.role);
    status = again.status();
    if (!status.ok()) break;
    StatusOr<ProcessRecord> noted = RecordProcess(process.role, again->pid());
    status = noted.status();
    if (!status.ok()) break;
    process = *std::move(noted);
    started.push_back(process);
    again->child().Release();
  }
  status.Update(WriteRecord(record));
  if (status.ok()) return started;
  return Annotate(status, "the cluster \"" + record.name + "\" cannot be made whole again");
}

Status WaitUntilWhole(const ClusterRecord& record, Deadline deadline) {
  constexpr std::chrono::milliseconds kAnswer{200};
  constexpr std::chrono::milliseconds kPause{20};
  while (true) {
    const StatusOr<ClusterStatus> status = GetClusterStatus(record.controller, kAnswer);
    if (status.ok() && status->IsReady()) return OkStatus();
    if (deadline.Expired()) {
      return DeadlineExceeded(
          "all processes of \"", record.name, "\" run again (the controller is process ",
          record.processes.front().pid, "), but not all workers have joined: ",
          status.ok() ? "`lockstep status --name " + record.name + "` shows which"
                      : Message(status.status()),
          "; their logs are in ", record.directory);
    }
    std::this_thread::sleep_for(kPause);
  }
}

struct Started {
  ClusterRecord record;
  std::vector<ProcessRecord> started_again;            // of a cluster that ran already
  std::unique_ptr<local::ClusterProcesses> processes;  // null: it ran already
};

StatusOr<Started> MakeWholeAgain(const UpCommand& command, ClusterRecord record) {
  const Spinner spinner("starting what has ended of " + record.name, CanShowProgress());
  const Deadline deadline = Deadline::After(
      std::chrono::milliseconds(static_cast<int64_t>(command.timeout_seconds * 1000)));
  Started started;
  LOCKSTEP_ASSIGN_OR_RETURN(started.started_again, StartEndedProcesses(record));
  LOCKSTEP_RETURN_IF_ERROR(WaitUntilWhole(record, deadline));
  started.record = std::move(record);
  return started;
}

StatusOr<Started> Start(const UpCommand& command, const local::ClusterOptions& cluster,
                        InterruptGuard& interrupt) {
  const std::string name = cluster.cluster;
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterLock lock, ClusterLock::Acquire(name));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<ClusterRecord> broken, FindBroken(name));
  if (broken.has_value()) return MakeWholeAgain(command, *broken);
  local::ClusterProcessesOptions options;
  LOCKSTEP_ASSIGN_OR_RETURN(options.directory, PrepareRunDirectory(command, name));
  options.cluster = cluster;
  options.detached = command.detach;
  options.start_timeout =
      std::chrono::milliseconds(static_cast<int64_t>(command.timeout_seconds * 1000));
  StatusOr<std::unique_ptr<local::ClusterProcesses>> processes = [&] {
    const Spinner spinner(
        "starting " + text::Plural(static_cast<uint64_t>(options.cluster.workers), "worker"),
        CanShowProgress());
    return local::ClusterProcesses::Start(options, interrupt.fd());
  }();
  if (interrupt.Take()) return Interrupted(std::move(processes), options.directory, interrupt);
  if (!processes.ok()) {
    // Logs say why; without any there is nothing to keep.
    std::error_code error;
    std::filesystem::remove(options.directory, error);
    return processes.status();
  }
  Started started;
  started.processes = *std::move(processes);
  LOCKSTEP_ASSIGN_OR_RETURN(started.record, Record(cluster, options.directory, *started.processes));
  LOCKSTEP_RETURN_IF_ERROR(WriteRecord(started.record));
  return started;
}

Status Up(const UpCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(local::ClusterOptions cluster, LoadOptions(command));
  SetReplacementHint(cluster);
  const Status valid = CheckClusterName(cluster.cluster);
  if (!valid.ok()) return WithExitCode(valid, ExitCode::kUsage);

  // From here on ^C stops what has been started, instead of leaving it behind.
  LOCKSTEP_ASSIGN_OR_RETURN(InterruptGuard interrupt, InterruptGuard::Make());
  const auto start = std::chrono::steady_clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(const Started started, Start(command, cluster, interrupt));
  Announce(command, cluster, started.record, started.started_again,
           std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start));
  // What was started again is detached, whatever the rest is.
  if (started.processes == nullptr) return OkStatus();
  if (command.detach) {
    started.processes->Release();
    return OkStatus();
  }
  const Status status = RunUntilStopped(started.record, *started.processes, interrupt);
  interrupt.Take();
  return status;
}

}  // namespace

void AddUp(Command lockstep) {
  Command command = lockstep.AddCommand("up", "Start a cluster of service processes");
  auto options = std::make_shared<UpCommand>();
  command.Add("CLUSTER", options->file, "YAML file; `lockstep config show` lists its keys")
      .Placeholder("");
  command.Add("-w,--workers", options->workers, "how many workers; 4 if not given")
      .Between(1, config::kMaxWorkers)
      .Placeholder("N");
  command.Add("-n,--name", options->name, "the cluster's name; \"lockstep\" if not given")
      .Placeholder("NAME");
  command.AddFlag("-d,--detach", options->detach,
                  "return when the cluster is ready and leave it running");
  command
      .Add("--set", options->settings,
           "a setting of the cluster file, as in worker.arena_bytes=1GiB (repeatable)")
      .Placeholder("KEY=VALUE")
      .Repeatable();
  command
      .Add("--module-path", options->module_path,
           "directory that workers may load modules from (repeatable)")
      .ExistingDirectory()
      .Placeholder("DIR")
      .Repeatable();
  command
      .Add("--run-dir", options->run_directory,
           "new or empty directory for sockets and logs; without it:\n"
           "${XDG_RUNTIME_DIR:-/tmp}/lockstep-UID/run/NAME")
      .Placeholder("DIR");
  command.Add("--timeout", options->timeout_seconds, "seconds to wait until all is ready")
      .Between(0.001, 86'400.0)
      .Placeholder("SECONDS")
      .ShowDefault();
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep up --workers 4                    until ^C\n"
      "  lockstep up cluster.yaml --detach          until `lockstep down`\n"
      "  lockstep up --name demo --module-path build/modules\n"
      "  lockstep up --set worker.arena_bytes=4GiB --set controller.worker_timeout=5s\n");
  command.Do([options] { return Up(*options); });
}

}  // namespace lockstep::cli
