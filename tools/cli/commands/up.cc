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
#include "services/local/fragment_cache.h"
#include "tools/cli/cluster_repair.h"
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
    std::filesystem::path normal = std::filesystem::absolute(directory).lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();
    const std::string path = normal.string();
    options->worker.module_path.push_back(path);
    for (auto& rank : options->ranks) rank.module_path.push_back(path);
  }
  return options;
}

// What `lockstep status` and errors say of a lost worker, unless the file says something else.
void SetReplacementHint(local::ClusterOptions& cluster) {
  std::string& hint = cluster.controller.replacement_hint;
  if (hint != local::ClusterOptions().controller.replacement_hint) return;
  hint = "run `lockstep up --name " + cluster.cluster + "` to start again what has ended";
  if (!cluster.HasOtherHosts()) return;
  hint += " on the controller's host; workers of other hosts come back with a new cluster";
}

// One compilation for all workers of this host, which the next cluster finds, too. Where the user's
// own directory is not to be had, it lasts as long as the cluster, in its run directory.
void ShareFragments(local::ClusterOptions& cluster, const std::string& run_directory) {
  StatusOr<std::string> cache = local::UserFragmentCache();
  if (!cache.ok() || !local::PrepareFragmentCache(*cache).ok()) {
    cache = run_directory + "/fragments";
  }
  for (worker::WorkerOptions& worker : cluster.ranks) {
    if (!worker.fragment_cache.empty() || !cluster.HostOf(worker.rank).IsThisHost()) continue;
    worker.fragment_cache = *cache;
  }
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

// Where clients of other hosts connect, if the controller listens for them at all addresses; else
// empty. `endpoint`: where those of this host do, with the port.
std::string EndpointElsewhere(const decltype(local::ClusterOptions::controller)& controller,
                              const std::string& endpoint) {
  if (!control::IsAnyAddress(control::HostOf(controller.client_endpoint))) return "";
  const std::string& name = controller.advertise_address;
  return control::WithHost(endpoint, name.empty() ? ThisHost().name : name);
}

StatusOr<ClusterRecord> Record(const local::ClusterOptions& cluster, const std::string& directory,
                               const local::ClusterProcesses& processes) {
  ClusterRecord record;
  record.name = cluster.cluster;
  record.controller = processes.address();
  record.endpoint_elsewhere = EndpointElsewhere(cluster.controller, record.controller.endpoint);
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
  Rank next = 0;
  for (const local::HostOptions& host : cluster.hosts) {
    std::vector<Rank>& ranks = record.hosts.emplace_back(host.host, std::vector<Rank>()).second;
    for (int i = 0; i < host.workers; ++i) ranks.push_back(next++);
  }
  return record;
}

std::string DescribeHosts(const ClusterRecord& record) {
  std::string text;
  for (const auto& [host, ranks] : record.hosts) {
    text += (text.empty() ? "" : ", ") + host + " (" + ListRanks(ranks) + ")";
  }
  return text;
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
void Announce(const UpCommand& command, const ClusterRecord& record,
              const std::vector<ProcessRecord>& started_again, std::chrono::milliseconds duration) {
  const bool is_repaired = !started_again.empty();
  const bool taken_over = is_repaired && started_again.front().role == kController;
  if (command.format == OutputFormat::kJson) {
    Json pids = Json::array();
    for (size_t i = 1; i < record.processes.size(); ++i) pids.push_back(record.processes[i].pid);
    Json roles = Json::array();
    for (const ProcessRecord& process : started_again) roles.push_back(process.role);
    Json hosts = Json::array();
    for (const auto& [host, ranks] : record.hosts) {
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
  if (record.HasOtherHosts()) line("hosts     ", DescribeHosts(record));
  line("connect   ", record.controller.endpoint);
  if (!record.endpoint_elsewhere.empty()) {
    line("          ", record.endpoint_elsewhere + " from other hosts");
  }
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

struct Started {
  ClusterRecord record;
  std::vector<ProcessRecord> started_again;            // of a cluster that ran already
  std::unique_ptr<local::ClusterProcesses> processes;  // null: it ran already
};

// True if what is asked for is more than the cluster of a name.
bool AsksForMore(const UpCommand& command) {
  return !command.file.empty() || command.workers.has_value() || !command.settings.empty() ||
         !command.module_path.empty();
}

StatusOr<Started> Repair(const UpCommand& command, const local::ClusterOptions& cluster,
                         ClusterRecord record) {
  if (AsksForMore(command)) LOCKSTEP_RETURN_IF_ERROR(CheckIsAsGiven(record, cluster));
  if (!command.run_directory.empty() &&
      std::filesystem::absolute(command.run_directory).lexically_normal() !=
          std::filesystem::path(record.directory).lexically_normal()) {
    return UsageError("the cluster \"", record.name, "\" still runs, in ", record.directory,
                      ", not in ", command.run_directory);
  }
  const Spinner spinner("starting what has ended of " + record.name, CanShowProgress());
  const Deadline deadline = Deadline::After(
      std::chrono::milliseconds(static_cast<int64_t>(command.timeout_seconds * 1000)));
  Started started;
  LOCKSTEP_ASSIGN_OR_RETURN(started.started_again, MakeWholeAgain(record, deadline));
  started.record = std::move(record);
  return started;
}

StatusOr<Started> Start(const UpCommand& command, const local::ClusterOptions& cluster,
                        InterruptGuard& interrupt) {
  const std::string name = cluster.cluster;
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterLock lock, ClusterLock::Acquire(name));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<ClusterRecord> broken, FindBroken(name));
  if (broken.has_value()) return Repair(command, cluster, *broken);
  local::ClusterProcessesOptions options;
  LOCKSTEP_ASSIGN_OR_RETURN(options.directory, PrepareRunDirectory(command, name));
  options.cluster = cluster;
  ShareFragments(options.cluster, options.directory);
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
  LOCKSTEP_RETURN_IF_ERROR(KeepConfiguration(options.directory, cluster));
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
  Announce(command, started.record, started.started_again,
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
