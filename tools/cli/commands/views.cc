// The commands that look at a cluster: each asks it, and shows the answer as a table or as JSON.
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/rank_text.h"
#include "tools/cli/cluster_text.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/register_text.h"
#include "tools/cli/session_text.h"
#include "tools/cli/stall_text.h"
#include "tools/cli/target.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct ViewOptions {
  TargetOptions target;
  OutputFormat format = OutputFormat::kTable;
  bool exit_code = false;  // --exit-code: of those that have it
  bool all = false;        // --all: the same
};

// Prints the answer as JSON, or calls `print` with the style of standard output.
template <typename Print>
Status Show(OutputFormat format, const Json& json, Print print) {
  if (format == OutputFormat::kJson) {
    std::cout << ToText(json) << '\n';
  } else {
    print(text::Style::For(STDOUT_FILENO));
  }
  return OkStatus();
}

// What --exit-code tells of a cluster that answers.
Status InOrder(const ViewOptions& options, const std::string& trouble) {
  if (!options.exit_code || trouble.empty()) return OkStatus();
  return WithExitCode(FailedPrecondition(trouble), ExitCode::kNotInOrder);
}

// What is wrong with a cluster; empty: nothing.
std::string TroubleOf(const ClusterStatus& status) {
  std::string trouble;
  const auto add = [&](const std::string& what) {
    trouble += (trouble.empty() ? "" : "; ") + what;
  };
  if (!status.IsReady()) {
    add(std::to_string(CountReady(status)) + " of " +
        text::Plural(status.workers.size(), "worker") + " ready");
  }
  for (const std::string& held_up : EndedWork(status)) add(held_up);
  std::vector<Rank> stuck;
  for (const WorkerStatus& worker : status.workers) {
    if (worker.stuck) stuck.push_back(worker.rank);
  }
  if (!stuck.empty()) add(ListRanks(stuck) + (stuck.size() == 1 ? " is" : " are") + " stuck");
  for (const SessionStatus& session : status.sessions) {
    if (session.error.empty()) continue;
    add("session " + std::to_string(session.session.value) + " has failed");
  }
  return trouble;
}

// What keeps a cluster from going on; empty: nothing. A function that is only slow does not.
std::string TroubleOf(const ClusterStatus& status, const StallDiagnosis& diagnosis) {
  for (const Blocker& blocker : diagnosis.blockers) {
    if (blocker.stuck || blocker.kind != Blocker::Kind::kBusy) return diagnosis.summary;
  }
  return TroubleOf(status);
}

Status ShowStatus(const ViewOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(options.target));
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryCluster(controller, options.target));
  LOCKSTEP_RETURN_IF_ERROR(Show(options.format, ClusterToJson(status, controller.endpoint),
                                [&](const text::Style& style) {
                                  PrintCluster(std::cout, style, status, controller.endpoint);
                                  std::cout << '\n';
                                  PrintWorkers(std::cout, style, status.workers, options.all);
                                  if (status.sessions.empty()) return;
                                  std::cout << '\n';
                                  PrintSessions(std::cout, style, status.sessions);
                                }));
  return InOrder(options, TroubleOf(status));
}

Status ShowWorkers(const ViewOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(options.target));
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryCluster(controller, options.target));
  return Show(options.format, WorkersToJson(status.workers), [&](const text::Style& style) {
    PrintWorkers(std::cout, style, status.workers, options.all);
  });
}

Status ShowWhy(const ViewOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(options.target));
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryWhy(controller, options.target));
  const StallDiagnosis diagnosis = DiagnoseStall(status);
  LOCKSTEP_RETURN_IF_ERROR(
      Show(options.format, DiagnosisToJson(status, diagnosis), [&](const text::Style& style) {
        PrintDiagnosis(std::cout, style, status, diagnosis, options.all);
      }));
  return InOrder(options, TroubleOf(status, diagnosis));
}

Status ShowSessions(const ViewOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(options.target));
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryCluster(controller, options.target));
  std::vector<RankRegisters> ranks;
  if (!status.sessions.empty()) {
    RegisterQuestion how_many;
    how_many.most = 0;
    auto told = QueryRegisters(controller, how_many, options.target);
    // What the controller knows is worth showing all the same.
    if (!told.ok()) text::Warn("what the sessions hold is not known: " + Message(told.status()));
    if (told.ok()) ranks = *std::move(told);
  }
  return Show(options.format, SessionDetailsToJson(status.sessions, ranks),
              [&](const text::Style& style) {
                PrintSessionDetails(std::cout, style, status.sessions, ranks);
              });
}

struct EndOptions {
  TargetOptions target;
  std::optional<int> session;
  std::string reason;
};

Status End(const EndOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(options.target));
  const SessionId session(static_cast<uint32_t>(*options.session));
  const std::string reason = options.reason.empty() ? "`lockstep sessions end`" : options.reason;
  LOCKSTEP_RETURN_IF_ERROR(QueryEnd(controller, session, reason, options.target));
  std::cout << text::Style::For(STDOUT_FILENO).Paint(text::Tint::kGreen, "ended") << "     session "
            << session << ": its work is aborted, and its client told\n";
  return OkStatus();
}

struct RegistersOptions {
  ViewOptions view;
  std::optional<int> session;
  std::optional<int> rank;
  std::optional<int> limit;
};

Status ShowRegisters(const RegistersOptions& options) {
  const TargetOptions& target = options.view.target;
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(target));
  RegisterQuestion question;
  question.session = SessionId(static_cast<uint32_t>(options.session.value_or(0)));
  question.rank = options.rank.value_or(-1);
  question.most = static_cast<uint32_t>(options.limit.value_or(static_cast<int>(question.most)));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<RankRegisters> ranks,
                            QueryRegisters(controller, question, target));
  return Show(options.view.format, RegistersToJson(ranks),
              [&](const text::Style& style) { PrintRegisters(std::cout, style, ranks); });
}

constexpr char kEachWorker[] =
    "a line for each worker; of more than 16, those that do the\nsame share one without it";

// What a view has besides the options that all have; null: it has not.
struct ViewFlags {
  const char* all_doc = nullptr;        // of --all
  const char* exit_code_doc = nullptr;  // of --exit-code
};

Command AddView(Command lockstep, const char* name, const char* doc, const char* examples,
                Status (*show)(const ViewOptions&), const ViewFlags& flags = {}) {
  Command command = lockstep.AddCommand(name, doc);
  auto options = std::make_shared<ViewOptions>();
  AddTargetOptions(command, options->target);
  AddOutputOption(command, options->format);
  if (flags.all_doc != nullptr) command.AddFlag("-a,--all", options->all, flags.all_doc);
  if (flags.exit_code_doc != nullptr) {
    command.AddFlag("--exit-code", options->exit_code, flags.exit_code_doc);
  }
  command.Examples(examples);
  command.Do([options, show] { return show(*options); });
  return command;
}

}  // namespace

void AddStatus(Command lockstep) {
  AddView(lockstep, "status", "Show a cluster, its workers and its sessions",
          "  lockstep status\n"
          "  lockstep status --name demo\n"
          "  lockstep status --connect tcp://127.0.0.1:7000 --output json\n"
          "  lockstep status --exit-code > /dev/null || echo 'look at it'\n",
          ShowStatus,
          {kEachWorker,
           "exit with 5 unless all workers are ready, none is stuck, and no\n"
           "session has failed"});
}

void AddWorkers(Command lockstep) {
  AddView(lockstep, "workers", "List a cluster's workers and their progress",
          "  lockstep workers\n"
          "  lockstep workers --output json | jq '.[] | select(.state != \"ready\")'\n\n"
          "Counters since a worker's start: RECEIVED batches, LAUNCHED and COMPLETED commands.\n"
          "LAUNCHED ahead of COMPLETED for long means that a command does not end.\n",
          ShowWorkers, {kEachWorker});
}

void AddWhy(Command lockstep) {
  AddView(
      lockstep, "why", "Explain why a cluster does not go on",
      "  lockstep why\n"
      "  lockstep why --name demo\n"
      "  lockstep why --output json | jq -r .summary\n\n"
      "Asks every worker what it is doing at this moment, and for the stack of the thread that\n"
      "does it (which is interrupted by a signal for that). Tells who holds the others up.\n",
      ShowWhy,
      {"an entry for each rank, with its whole stack",
       "exit with 5 if a rank is stuck, behind, silent or lost, or a session\n"
       "has failed"});
}

void AddSessions(Command lockstep) {
  Command sessions = AddView(
      lockstep, "sessions", "List a cluster's sessions and what they hold",
      "  lockstep sessions\n"
      "  lockstep sessions --output json | jq '.[] | select(.error)'\n\n"
      "SENT is what went to the workers, WAITING what the slowest of them has yet to execute.\n"
      "REGISTERS is for each rank, BYTES for all ranks together. A session that is detached has\n"
      "no client, but another may attach; it is orphaned if its client fell silent.\n",
      ShowSessions);
  Command end = sessions.AddCommand("end", "End a session, whatever its client does");
  auto options = std::make_shared<EndOptions>();
  end.Add("ID", options->session, "the session's number, as `lockstep sessions` lists it")
      .Required()
      .Between(1, 2'147'483'647)
      .Placeholder("");
  end.Add("--reason", options->reason, "what its client is told").Placeholder("TEXT");
  AddTargetOptions(end, options->target);
  end.Examples(
      "  lockstep sessions end 1\n"
      "  lockstep sessions end 1 --reason 'it blocks the nightly run'\n\n"
      "Its work is aborted on all ranks, its registers are freed, and its client gets an error.\n"
      "With keys: an operator may end any session, a client those of its own key.\n");
  end.Do([options] { return End(*options); });
}

void AddRegisters(Command lockstep) {
  Command command = lockstep.AddCommand("registers", "Show what registers hold, on every rank");
  auto options = std::make_shared<RegistersOptions>();
  AddTargetOptions(command, options->view.target);
  command.Add("-s,--session", options->session, "of this session alone")
      .Between(1, 2'147'483'647)
      .Placeholder("N");
  command.Add("-r,--rank", options->rank, "on this rank alone")
      .Between(0, 2'147'483'647)
      .Placeholder("R");
  command
      .Add("-l,--limit", options->limit,
           "show at most N registers of each rank (256): those that hold most;\n"
           "a rank tells of 4,096 at most, and all together of 16,384")
      .Between(1, 4096)
      .Placeholder("N");
  AddOutputOption(command, options->view.format);
  command.Examples(
      "  lockstep registers\n"
      "  lockstep registers --rank 1 --limit 20\n"
      "  lockstep registers --output json | jq '.[0].sessions[].listed[] | select(.name)'\n\n"
      "Types, shapes and sizes are shown, not what is in the registers. Ranks that hold the same\n"
      "share a line. A rank tells between two commands: one that is busy with a long command\n"
      "says with which instead.\n");
  command.Do([options] { return ShowRegisters(*options); });
}

}  // namespace lockstep::cli
