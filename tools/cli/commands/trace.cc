#include <poll.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/client/cluster_tracer.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/target.h"
#include "tools/cli/trace_file.h"

namespace lockstep::cli {
namespace {

// How often it is looked whether the cluster still records.
constexpr std::chrono::milliseconds kTracePollInterval{200};

struct TraceCommand {
  TargetOptions target;
  double seconds = 5;
  std::string file = "trace.json";
  std::optional<int> session;
  std::optional<int> events;
};

// A timeline of a session that is not there would look like one of a session that did nothing.
Status CheckSession(const ClusterStatus& cluster, SessionId wanted) {
  for (const SessionStatus& session : cluster.sessions) {
    if (session.session == wanted) return OkStatus();
  }
  return NotFound("the cluster has no session ", wanted.value,
                  "; `lockstep sessions` lists those that it has");
}

Status RecordTrace(const TraceCommand& command) {
  // Before other threads are started.
  LOCKSTEP_ASSIGN_OR_RETURN(InterruptGuard interrupt, InterruptGuard::Make());
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(command.target));
  LOCKSTEP_RETURN_IF_ERROR(CheckTraceFile(command.file));
  // Says best what is wrong if no controller answers.
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus cluster, QueryCluster(controller, command.target));
  if (command.session.has_value()) {
    LOCKSTEP_RETURN_IF_ERROR(
        CheckSession(cluster, SessionId(static_cast<uint32_t>(*command.session))));
  }
  TraceOptions options;
  options.timeout = command.target.timeout();
  if (command.events.has_value()) options.events = static_cast<uint32_t>(*command.events);
  auto started = ClusterTracer::Start(controller, options);
  if (started.status().code() == StatusCode::kPermissionDenied) {
    return WithExitCode(started.status(), ExitCode::kUnreachable);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tracer, std::move(started));
  const Deadline end = Deadline::After(std::chrono::duration_cast<Deadline::Clock::duration>(
      std::chrono::duration<double>(command.seconds)));
  // ^C ends the recording; what there is is written.
  while (!end.Expired() && !interrupt.Take()) {
    LOCKSTEP_RETURN_IF_ERROR(tracer->Check());
    pollfd set = {interrupt.fd(), POLLIN, 0};
    poll(&set, 1, end.Earlier(Deadline::After(kTracePollInterval)).RemainingMillis());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Trace trace, tracer->Stop());
  if (command.session.has_value()) {
    trace.KeepSession(SessionId(static_cast<uint32_t>(*command.session)));
  }
  return WriteTraceFile(trace, command.file);
}

}  // namespace

void AddTrace(Command lockstep) {
  Command command = lockstep.AddCommand("trace", "Record what all ranks do, as a timeline");
  auto options = std::make_shared<TraceCommand>();
  command.Add("-s,--seconds", options->seconds, "how long to record")
      .Between(0.0, 3600.0)
      .Placeholder("SECONDS")
      .ShowDefault();
  command
      .Add("-o,--output", options->file,
           "the file, in the Chrome trace event format; -: standard output")
      .Placeholder("FILE")
      .ShowDefault();
  command.Add("--session", options->session, "leave out what other sessions do")
      .Between(1, 2147483647)
      .Placeholder("ID");
  command
      .Add("--events", options->events,
           "how many events each thread keeps; then the oldest make room (65536)")
      .Between(1, 262144)
      .Placeholder("N");
  AddTargetOptions(command, options->target);
  command.Examples(
      "  lockstep trace --seconds 1\n"
      "  lockstep trace --name demo --seconds 0.5 --output step.json\n\n"
      "Open the file at https://ui.perfetto.dev (it stays on your machine), or in "
      "chrome://tracing.\n"
      "^C ends the recording early, and writes what there is. docs/tracing.md says what is in "
      "it.\n");
  command.Do([options] { return RecordTrace(*options); });
}

}  // namespace lockstep::cli
