#include <unistd.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/quantity.h"
#include "runtime/client/admin.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/progress.h"
#include "tools/cli/run_directory.h"
#include "tools/cli/target.h"
#include "tools/cli/value_text.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

using std::chrono::milliseconds;

struct DownCommand {
  std::string name;
  std::string endpoint;
  KeyOptions keys;
  bool all = false;
  double timeout_seconds = 10;
  OutputFormat format = OutputFormat::kTable;

  milliseconds timeout() const {
    return milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  }
};

// The cluster that is meant, a dead one included: its remains are to be removed too.
StatusOr<ClusterRecord> Choose(const DownCommand& command) {
  if (const Status valid = CheckClusterName(command.name); !command.name.empty() && !valid.ok()) {
    return WithExitCode(valid, ExitCode::kUsage);
  }
  if (!command.name.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::optional<ClusterRecord> record, ReadRecord(command.name));
    if (record.has_value()) return *std::move(record);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(RecordList records, ListRecords());
  for (const Status& unreadable : records.unreadable) text::Warn(Message(unreadable));
  std::string names;
  for (const ClusterRecord& record : records.clusters) {
    names += (names.empty() ? "" : ", ") + record.name;
  }
  if (command.name.empty() && records.clusters.size() == 1) {
    return std::move(records.clusters.front());
  }
  if (command.name.empty() && !names.empty()) {
    return UsageError("several clusters are there; name one, or say --all: ", names);
  }
  const std::string what = command.name.empty()
                               ? "no cluster runs on this host"
                               : "no cluster \"" + command.name + "\" runs on this host" +
                                     (names.empty() ? "" : "; there are: " + names);
  return WithExitCode(Unavailable(what), ExitCode::kUnreachable);
}

Status StopOne(const DownCommand& command, const ClusterRecord& record, Json& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterLock lock, ClusterLock::Acquire(record.name));
  const bool was_alive = record.IsAlive();
  const int workers = record.CountAliveWorkers();
  const auto start = std::chrono::steady_clock::now();
  std::string forced;
  {
    const Spinner spinner("stopping " + record.name, CanShowProgress());
    LOCKSTEP_RETURN_IF_ERROR(StopCluster(record, command.timeout(), &forced));
  }
  const auto duration =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
  report.push_back({{"cluster", record.name},
                    {"was_alive", was_alive},
                    {"workers", workers},
                    {"forced", forced.empty() ? Json() : Json(forced)},
                    {"milliseconds", duration.count()}});
  if (command.format == OutputFormat::kJson) return OkStatus();
  const text::Style style = text::Style::For(STDOUT_FILENO);
  if (!was_alive) {
    std::cout << "removed   what the dead cluster " << style.Paint(text::Tint::kBold, record.name)
              << " had left\n";
    return OkStatus();
  }
  std::cout << style.Paint(text::Tint::kGreen, "stopped") << "   "
            << style.Paint(text::Tint::kBold, record.name) << ": "
            << text::Plural(static_cast<uint64_t>(workers), "worker") << " in "
            << RoundedDuration(duration);
  if (workers < record.workers) {
    std::cout << "; " << record.workers - workers << " had ended before";
  }
  std::cout << '\n';
  if (!forced.empty()) {
    std::cout << style.Paint(text::Tint::kYellow, "by signal") << " " << forced << '\n';
  }
  return OkStatus();
}

// A cluster that need not be of this host: asked, and watched until no controller answers any more.
Status StopByEndpoint(const DownCommand& command) {
  const Deadline deadline = Deadline::After(command.timeout());
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller,
                            WithCheckedKeys(command.endpoint, command.keys));
  const Status asked = ShutdownCluster(controller, "lockstep down", command.timeout());
  if (asked.code() == StatusCode::kUnavailable || asked.code() == StatusCode::kPermissionDenied) {
    return WithExitCode(asked, ExitCode::kUnreachable);
  }
  LOCKSTEP_RETURN_IF_ERROR(asked);
  constexpr milliseconds kAnswer{200};
  while (GetClusterStatus(controller, kAnswer).ok()) {
    if (deadline.Expired()) {
      return DeadlineExceeded("the controller agreed to stop, but still answers after ",
                              RoundedDuration(command.timeout()));
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(Json::array({Json{{"endpoint", command.endpoint}}})) << '\n';
  } else {
    std::cout << text::Style::For(STDOUT_FILENO).Paint(text::Tint::kGreen, "stopped") << "   "
              << command.endpoint << '\n';
  }
  return OkStatus();
}

Status StopAll(const DownCommand& command, Json& report) {
  LOCKSTEP_ASSIGN_OR_RETURN(const RecordList records, ListRecords());
  Status first_error;
  // One that does not stop, or is not known, is no reason to leave the others running.
  for (const ClusterRecord& record : records.clusters) {
    const Status stopped = StopOne(command, record, report);
    if (!first_error.ok() && !stopped.ok()) text::Warn(Message(stopped));
    first_error.Update(stopped);
  }
  for (const Status& unreadable : records.unreadable) {
    if (!first_error.ok()) text::Warn(Message(unreadable));
    first_error.Update(unreadable);
  }
  if (records.clusters.empty() && first_error.ok() && command.format != OutputFormat::kJson) {
    std::cout << "nothing to stop\n";
  }
  return first_error;
}

Status Down(const DownCommand& command) {
  if (!command.endpoint.empty()) return StopByEndpoint(command);
  Json report = Json::array();
  Status status;
  if (command.all) {
    status = StopAll(command, report);
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(const ClusterRecord record, Choose(command));
    status = StopOne(command, record, report);
  }
  if (command.format == OutputFormat::kJson) std::cout << ToText(report) << '\n';
  return status;
}

}  // namespace

void AddDown(Command lockstep) {
  Command command = lockstep.AddCommand("down", "Stop a cluster");
  auto options = std::make_shared<DownCommand>();
  Option name = command.Add("NAME", options->name, "the cluster; not needed if there is only one")
                    .Placeholder("");
  Option name_again = command.Add("-n,--name", options->name, "the same, as other commands name it")
                          .Placeholder("NAME")
                          .Excludes(name);
  command.AddFlag("-a,--all", options->all, "all clusters that `lockstep up` started on this host")
      .Excludes(name)
      .Excludes(name_again);
  command
      .Add("-c,--connect", options->endpoint, "a cluster by its controller's endpoint for clients")
      .Excludes(name)
      .Excludes(name_again)
      .Excludes(command.Get("--all"))
      .Placeholder("ENDPOINT");
  command
      .Add("--timeout", options->timeout_seconds,
           "seconds to wait before processes are ended by signals")
      .Between(0.001, 86'400.0)
      .Placeholder("SECONDS")
      .ShowDefault();
  AddKeyOptions(command, options->keys);
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep down\n"
      "  lockstep down demo                  or: lockstep down --name demo\n"
      "  lockstep down --all\n");
  command.Do([options] { return Down(*options); });
}

}  // namespace lockstep::cli
