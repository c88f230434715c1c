#include "tools/cli/target.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/resources.h"
#include "tools/cli/cluster_text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/progress.h"
#include "tools/cli/run_directory.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

constexpr char kDefaultName[] = "lockstep";
constexpr char kHowToStart[] = "start one with `lockstep up`, or name one with --connect";

// The controller waits a second for workers that do not answer.
constexpr std::chrono::milliseconds kForReports{1500};

Status Unreachable(const std::string& what) {
  return WithExitCode(Unavailable(what), ExitCode::kUnreachable);
}

// Why the controller does not answer, where it is one of `up`'s on this host: that it has ended,
// and what to do. Else `status`. An endpoint that was given by --connect or $LOCKSTEP_ENDPOINT may
// be such a cluster's, too.
Status ExplainSilence(const ControllerAddress& controller, const Status& status) {
  if (status.code() != StatusCode::kUnavailable) return status;
  const StatusOr<RecordList> records = ListRecords();
  if (!records.ok()) return status;
  for (const ClusterRecord& record : records->clusters) {
    if (record.controller.endpoint != controller.endpoint) continue;
    const Status ended = record.CheckController();
    if (!ended.ok()) return ended;
  }
  return status;
}

// Wrong groups, a wrong name or a wrong endpoint are the user's to put right.
Status ConnectError(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kPermissionDenied:
    case StatusCode::kFailedPrecondition:  // another program, or another version, answers
      return WithExitCode(status, ExitCode::kUnreachable);
    case StatusCode::kInvalidArgument:
      return WithExitCode(status, ExitCode::kUsage);
    default:
      return status;
  }
}

StatusOr<ControllerAddress> ControllerOf(const std::string& name) {
  const StatusOr<std::optional<ClusterRecord>> found = ReadRecord(name);
  if (!found.ok()) return ConnectError(found.status());
  const std::optional<ClusterRecord>& record = *found;
  if (!record.has_value()) {
    return Unreachable("no cluster \"" + name + "\" runs on this host; " + kHowToStart);
  }
  LOCKSTEP_RETURN_IF_ERROR(record->CheckController());
  return record->controller;
}

// Used where nothing says which cluster is meant.
StatusOr<ControllerAddress> OnlyController() {
  LOCKSTEP_ASSIGN_OR_RETURN(const RecordList records, ListRecords());
  for (const Status& unreadable : records.unreadable) text::Warn(Message(unreadable));
  std::vector<const ClusterRecord*> alive;
  std::string names;
  for (const ClusterRecord& record : records.clusters) {
    if (!record.IsAlive()) continue;
    alive.push_back(&record);
    names += (names.empty() ? "" : ", ") + record.name;
    if (record.name == kDefaultName) return ControllerOf(record.name);
  }
  if (alive.size() == 1) return ControllerOf(alive.front()->name);
  if (!alive.empty()) {
    return UsageError("several clusters run on this host; choose one with --name: ", names);
  }
  return ControllerOf(kDefaultName);
}

StatusOr<ControllerAddress> ChooseController(const TargetOptions& options) {
  if (!options.endpoint.empty()) return ControllerAddress(options.endpoint);
  if (!options.name.empty()) return ControllerOf(options.name);
  const char* endpoint = std::getenv("LOCKSTEP_ENDPOINT");
  if (endpoint != nullptr && *endpoint != '\0') return ControllerAddress(endpoint);
  return OnlyController();
}

}  // namespace

void AddTargetOptions(Command command, TargetOptions& options) {
  Option connect = command
                       .Add("-c,--connect", options.endpoint,
                            "the controller's endpoint for clients: ipc://PATH or tcp://HOST:PORT")
                       .Placeholder("ENDPOINT");
  command
      .Add("-n,--name", options.name,
           "a cluster started by `lockstep up` on this host; without both:\n"
           "$LOCKSTEP_ENDPOINT, else the one that runs")
      .Placeholder("NAME")
      .Excludes(connect);
  command.Add("--timeout", options.timeout_seconds, "seconds to wait for the controller's answer")
      .Between(0.001, 86'400.0)
      .Placeholder("SECONDS")
      .ShowDefault();
  AddKeyOptions(command, options.keys);
}

StatusOr<ControllerAddress> ResolveController(const TargetOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(ControllerAddress controller, ChooseController(options));
  return WithCheckedKeys(std::move(controller), options.keys);
}

StatusOr<ClusterStatus> QueryCluster(const ControllerAddress& controller,
                                     const TargetOptions& options) {
  const Spinner spinner("asking " + controller.endpoint, CanShowProgress());
  StatusOr<ClusterStatus> status = GetClusterStatus(controller, options.timeout());
  return status.ok() ? status : ConnectError(ExplainSilence(controller, status.status()));
}

StatusOr<ClusterStatus> QueryWhy(const ControllerAddress& controller,
                                 const TargetOptions& options) {
  const Spinner spinner("asking the workers of " + controller.endpoint, CanShowProgress());
  StatusOr<ClusterStatus> status = ExplainCluster(controller, options.timeout() + kForReports);
  return status.ok() ? status : ConnectError(ExplainSilence(controller, status.status()));
}

StatusOr<std::vector<RankRegisters>> QueryRegisters(const ControllerAddress& controller,
                                                    const RegisterQuestion& question,
                                                    const TargetOptions& options) {
  const Spinner spinner("asking the workers of " + controller.endpoint, CanShowProgress());
  auto ranks = ListRegisters(controller, question, options.timeout() + kForReports);
  return ranks.ok() ? ranks : ConnectError(ExplainSilence(controller, ranks.status()));
}

Status QueryEnd(const ControllerAddress& controller, SessionId session, const std::string& reason,
                const TargetOptions& options) {
  const Status ended = EndSession(controller, session, reason, options.timeout());
  return ended.ok() ? ended : ConnectError(ExplainSilence(controller, ended));
}

void AddSessionOptions(Command command, SessionTarget& target) {
  AddTargetOptions(command, target.cluster);
  Option embedded = command.AddFlag("--embedded", target.embedded,
                                    "start a cluster inside this process instead of connecting");
  embedded.Excludes(command.Get("--connect")).Excludes(command.Get("--name"));
  command.Add("-w,--workers", target.workers, "how many workers the embedded cluster has")
      .Between(1, 1024)
      .Placeholder("N")
      .Needs(embedded);
  command
      .Add("--module-path", target.module_path,
           "directory that the embedded cluster may load modules from (repeatable)")
      .ExistingDirectory()
      .Placeholder("DIR")
      .Repeatable()
      .Needs(embedded);
}

StatusOr<OpenSession> Open(const SessionTarget& target, SessionOptions options) {
  OpenSession open;
  if (target.embedded) {
    // What fails is reported by the command; the services' own words would get in between.
    log::Silence();
    RaiseDescriptorLimit();
    local::LocalClusterOptions local;
    local.workers = target.workers.value_or(local.workers);
    const Spinner spinner("starting " + std::to_string(local.workers) + " workers",
                          CanShowProgress());
    local.module_path = target.module_path;
    LOCKSTEP_ASSIGN_OR_RETURN(open.cluster, local::LocalCluster::Start(local));
    StatusOr<Session> session = open.cluster->Connect(std::move(options));
    if (!session.ok()) return ConnectError(session.status());
    open.session.emplace(*std::move(session));
    return open;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(target.cluster));
  open.controller = controller;
  // A controller that does not answer this at once is not there; a session would wait for long.
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryCluster(controller, target.cluster));
  // The session would be opened, and its first call wait for long.
  for (const std::string& held_up : EndedWork(status)) text::Warn(held_up);
  options.Reach(controller);
  const Spinner spinner("waiting for all workers", CanShowProgress());
  StatusOr<Session> session = Session::Connect(options);
  if (!session.ok()) return ConnectError(session.status());
  open.session.emplace(*std::move(session));
  return open;
}

Status EndInterruptedSession(const ControllerAddress& controller, SessionId session) {
  constexpr std::chrono::seconds kPatience{2};
  return EndSession(controller, session, "its client was interrupted (^C)", kPatience);
}

void AddWorkerOutputOption(Command command, WorkerOutputChoice& choice) {
  command
      .Add(
          "--worker-output",
          [&choice](const std::string& name) {
            choice = name == "log" ? WorkerOutputChoice::kLog : WorkerOutputChoice::kForward;
          },
          "forward: show what functions print, with the rank in front (default);\n"
          "log: leave it to the workers' logs")
      .OneOf({"forward", "log"})
      .Placeholder("WHERE");
}

OutputCallback WorkerOutputPrinter(WorkerOutputChoice choice, OutputFormat format) {
  if (choice == WorkerOutputChoice::kLog) return nullptr;
  OutputCallback print = PrintOutput(format == OutputFormat::kJson ? stderr : stdout, stderr);
  if (!CanShowProgress()) return print;
  return [print = std::move(print)](const WorkerOutput& output) {
    // Whatever moves there is drawn again.
    std::fputs("\r\033[K", stderr);
    print(output);
  };
}

}  // namespace lockstep::cli
