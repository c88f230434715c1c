#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/host_identity.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/admin.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/logs/log_file.h"
#include "tools/cli/run_directory.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

constexpr std::chrono::milliseconds kLogPollInterval{200};
constexpr size_t kAll = std::numeric_limits<size_t>::max();

struct LogsCommand {
  std::string endpoint;
  std::string name;
  std::optional<int> rank;
  bool controller = false;
  std::optional<int> lines;
  std::string level = "debug";
  bool follow = false;
  OutputFormat format = OutputFormat::kTable;

  size_t most() const { return static_cast<size_t>(lines.value_or(100)); }
};

namespace fs = std::filesystem;

constexpr char kDefaultName[] = "lockstep";

Status NotStartedHere(const std::string& endpoint) {
  return NotFound(
      "the cluster at ", endpoint,
      " was not started by `lockstep up` on this host, so its services log to wherever who has"
      " started them says: `journalctl -u UNIT`, `docker logs CONTAINER`, `kubectl logs POD`;"
      " `lockstep status --connect ",
      endpoint, "` tells on which hosts they run");
}

std::string WorkerLog(Rank rank) { return "worker-" + std::to_string(rank) + ".log"; }

// A start that has failed leaves no record, but what its services have said.
StatusOr<ClusterRecord> WithoutRecord(const std::string& name) {
  ClusterRecord cluster;
  cluster.name = name;
  cluster.directory = DefaultRunDirectory(name);
  std::error_code error;
  while (fs::exists(cluster.directory + "/" + WorkerLog(cluster.workers), error)) ++cluster.workers;
  if (cluster.workers > 0 || fs::exists(cluster.directory + "/controller.log", error)) {
    return cluster;
  }
  return WithExitCode(
      NotFound("no cluster \"", name,
               "\" has left logs on this host (`lockstep down` removes them); ",
               "a cluster that `lockstep up` has not started logs to wherever who has started it"
               " says: `journalctl -u UNIT`, `docker logs CONTAINER`, `kubectl logs POD`"),
      ExitCode::kUnreachable);
}

StatusOr<ClusterRecord> ByName(const std::string& name) {
  const Status valid = CheckClusterName(name);
  if (!valid.ok()) return WithExitCode(valid, ExitCode::kUsage);
  LOCKSTEP_ASSIGN_OR_RETURN(std::optional<ClusterRecord> record, ReadRecord(name));
  return record.has_value() ? *std::move(record) : WithoutRecord(name);
}

StatusOr<ClusterRecord> ByEndpoint(const std::string& endpoint) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RecordList records, ListRecords());
  for (const ClusterRecord& record : records.clusters) {
    if (record.controller.endpoint == endpoint) return record;
  }
  return NotStartedHere(endpoint);
}

StatusOr<ClusterRecord> TheOnlyOne() {
  LOCKSTEP_ASSIGN_OR_RETURN(RecordList records, ListRecords());
  for (const Status& unreadable : records.unreadable) text::Warn(Message(unreadable));
  std::vector<ClusterRecord>& all = records.clusters;
  // Those that run come before those that have ended.
  const auto dead = std::stable_partition(
      all.begin(), all.end(), [](const ClusterRecord& record) { return record.IsAlive(); });
  if (dead != all.begin()) all.erase(dead, all.end());
  std::string names;
  for (const ClusterRecord& record : all) {
    if (record.name == kDefaultName || all.size() == 1) return record;
    names += (names.empty() ? "" : ", ") + record.name;
  }
  if (all.empty()) return WithoutRecord(kDefaultName);
  return UsageError("several clusters have logs on this host; choose one with --name: ", names);
}

// Of a cluster that `lockstep up` has started on this host: by its endpoint, else its name, else
// $LOCKSTEP_ENDPOINT, else the only one there is (the one that runs, if several have left logs).
// One whose start has failed has a directory and no processes. For any other an error that says
// where to look.
StatusOr<ClusterRecord> FindLogs(const std::string& endpoint, const std::string& name) {
  if (!endpoint.empty()) return ByEndpoint(endpoint);
  if (!name.empty()) return ByName(name);
  const char* const from_environment = std::getenv("LOCKSTEP_ENDPOINT");
  if (from_environment != nullptr && *from_environment != '\0') return ByEndpoint(from_environment);
  return TheOnlyOne();
}

struct LogSource {
  std::string name;  // "controller", "worker-2"
  std::string path;
};

// The controller's, then the workers' by rank; of one of them alone if `rank` or `controller` says
// so. What is a worker of another host is here as well. kInvalidArgument: there is no such rank.
StatusOr<std::vector<LogSource>> SourcesOf(const ClusterRecord& cluster, std::optional<Rank> rank,
                                           bool controller) {
  if (rank.has_value() && *rank >= cluster.workers) {
    return UsageError("the cluster \"", cluster.name, "\" has no rank ", *rank, ", but ",
                      text::Plural(static_cast<uint64_t>(cluster.workers), "worker"));
  }
  std::vector<LogSource> sources;
  if (!rank.has_value()) {
    sources.push_back({"controller", cluster.directory + "/controller.log"});
  }
  for (Rank worker = 0; worker < cluster.workers && !controller; ++worker) {
    if (rank.has_value() && worker != *rank) continue;
    sources.push_back(
        {"worker-" + std::to_string(worker), cluster.directory + "/" + WorkerLog(worker)});
  }
  return sources;
}

// A rank may be another process's by now, which `up` has not started: its log is elsewhere.
void TellOfOtherProcesses(const ClusterRecord& cluster, std::optional<Rank> only) {
  if (!cluster.HasController()) return;
  constexpr std::chrono::milliseconds kPatience{500};
  const StatusOr<ClusterStatus> status = GetClusterStatus(cluster.controller, kPatience);
  if (!status.ok()) return;
  for (const WorkerStatus& worker : status->workers) {
    if (only.value_or(worker.rank) != worker.rank || worker.state != WorkerState::kReady) continue;
    // The controller comes first. What stands for a worker of another host has another id.
    const auto place = static_cast<size_t>(worker.rank) + 1;
    if (place >= cluster.processes.size()) continue;
    const ProcessRecord& first = cluster.processes[place];
    const bool is_here = first.role.find(' ') == std::string::npos;
    if (!is_here || first.pid == worker.pid) continue;
    text::Warn(
        "rank " + std::to_string(worker.rank) + " is now the process " +
        ProcessLabel(worker.host, worker.pid) +
        ", which `lockstep up` has not started: it logs to wherever who has started it says. "
        "Below are the lines of process " +
        std::to_string(first.pid));
  }
}

class Printer {
 public:
  Printer(const LogsCommand& command, const std::vector<LogFile>& files)
      : as_json_(command.format == OutputFormat::kJson) {
    for (const LogFile& file : files) {
      source_width_ = std::max(source_width_, text::DisplayWidth(file.source()));
    }
  }

  // The last `most` of them.
  void Print(const std::vector<LogEntry>& entries, size_t most) const {
    const size_t first = entries.size() - std::min(entries.size(), most);
    for (size_t i = first; i < entries.size(); ++i) {
      std::cout
          << (as_json_
                  ? LogEntryToJson(entries[i]).dump(-1, ' ', false, Json::error_handler_t::replace)
                  : RenderLogEntry(entries[i], style_, source_width_))
          << '\n';
    }
    std::cout.flush();
  }

 private:
  const bool as_json_;
  const text::Style style_ = text::Style::For(STDOUT_FILENO);
  int source_width_ = 0;
};

// What has come to all files since the last call, the last `most` lines of each.
StatusOr<std::vector<LogEntry>> ReadAll(std::vector<LogFile>& files, const LogFilter& filter,
                                        size_t most, bool to_the_end) {
  std::vector<std::vector<LogEntry>> entries;
  for (LogFile& file : files) {
    LOCKSTEP_ASSIGN_OR_RETURN(entries.emplace_back(), file.Read(filter, most, to_the_end));
  }
  return MergeByTime(std::move(entries));
}

Status ShowLogs(const LogsCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterRecord cluster, FindLogs(command.endpoint, command.name));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<LogSource> sources,
                            SourcesOf(cluster, command.rank, command.controller));
  if (!command.controller) TellOfOtherProcesses(cluster, command.rank);
  std::vector<LogFile> files;
  for (const LogSource& source : sources) files.emplace_back(source.name, source.path);
  const LogFilter filter{LevelNamed(command.level).value_or(log::Level::kDebug)};
  // Where all lines are wanted, the last ones can be found from the end.
  for (LogFile& file : files) {
    if (filter.level == log::Level::kDebug) {
      LOCKSTEP_RETURN_IF_ERROR(file.SkipToLast(command.most()));
    }
  }
  const Printer printer(command, files);
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<LogEntry> entries,
                            ReadAll(files, filter, command.most(), !command.follow));
  if (!command.follow) {
    printer.Print(entries, command.most());
    return OkStatus();
  }
  // Until here ^C ends it as it ends any program: long logs take long to read. From the
  // first lines on, it ends in order.
  LOCKSTEP_ASSIGN_OR_RETURN(InterruptGuard interrupt, InterruptGuard::Make());
  printer.Print(entries, command.most());
  while (true) {
    // Looked at before the files are: what it has said before its end is read.
    const bool has_ended = !cluster.IsAlive();
    LOCKSTEP_ASSIGN_OR_RETURN(entries, ReadAll(files, filter, kAll, has_ended));
    printer.Print(entries, kAll);
    if (has_ended) {
      std::cerr << "the cluster \"" << cluster.name << "\" has ended\n";
      return OkStatus();
    }
    pollfd interrupted{interrupt.fd(), POLLIN, 0};
    poll(&interrupted, 1, static_cast<int>(kLogPollInterval.count()));
    if (interrupt.Take()) return OkStatus();
  }
}

}  // namespace

void AddLogs(Command lockstep) {
  Command command = lockstep.AddCommand("logs", "Show the logs of a cluster, also of a dead one");
  auto options = std::make_shared<LogsCommand>();
  Option connect =
      command.Add("-c,--connect", options->endpoint, "the cluster with this endpoint for clients")
          .Placeholder("ENDPOINT");
  command
      .Add("-n,--name", options->name,
           "the cluster of this name; without both: the only one there is")
      .Placeholder("NAME")
      .Excludes(connect);
  Option rank = command.Add("-r,--rank", options->rank, "of this worker alone")
                    .Between(0, 2'147'483'647)
                    .Placeholder("R");
  command.AddFlag("--controller", options->controller, "of the controller alone").Excludes(rank);
  command.Add("--lines", options->lines, "the last N lines, of all together (100)")
      .Between(0, 2'147'483'647)
      .Placeholder("N");
  command
      .Add("-l,--level", options->level,
           "from this level on: debug, info, warn, error, critical;\n"
           "lines that the log has not written itself (a module's,\n"
           "a crash's) are always shown")
      .OneOf({"debug", "info", "warn", "warning", "error", "critical"})
      .Placeholder("LEVEL");
  command.AddFlag("-f,--follow", options->follow,
                  "go on with what comes, until ^C or the cluster's end");
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep logs\n"
      "  lockstep logs --rank 1 --lines 20\n"
      "  lockstep logs --level warn\n"
      "  lockstep logs --follow\n"
      "  lockstep logs --output json | jq 'select(.session == 3)'\n\n"
      "The services' lines are merged by time. With --output json each line is an object.\n");
  command.Do([options] { return ShowLogs(*options); });
}

}  // namespace lockstep::cli
