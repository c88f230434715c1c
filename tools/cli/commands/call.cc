#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/rank_text.h"
#include "tools/cli/argument.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/session_interrupt.h"
#include "tools/cli/target.h"
#include "tools/cli/value_text.h"
#include "tools/text/table.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct CallCommand {
  SessionTarget target;
  std::string function;
  std::vector<std::string> args;
  std::string module;
  std::optional<Rank> rank;
  OutputFormat format = OutputFormat::kTable;
  WorkerOutputChoice worker_output = WorkerOutputChoice::kForward;
};

StatusOr<std::vector<Argument>> ParseArguments(const std::vector<std::string>& texts) {
  std::vector<Argument> arguments;
  for (size_t i = 0; i < texts.size(); ++i) {
    StatusOr<Argument> argument = ParseArgument(texts[i]);
    if (!argument.ok()) {
      return UsageError("argument ", i + 1, ": ", Message(argument.status()));
    }
    arguments.push_back(*std::move(argument));
  }
  return arguments;
}

StatusOr<DRef> GetFunction(Session& session, const CallCommand& command) {
  if (command.module.empty()) return session.GetFunction(command.function);
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef module, session.LoadModule(command.module));
  return session.GetFunction(module, command.function);
}

StatusOr<std::vector<RankValue>> Call(Session& session, const CallCommand& command,
                                      const std::vector<Argument>& arguments) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef function, GetFunction(session, command));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const DRef result,
      CallWithArguments(session, function, arguments, [](const std::string&) { return DRef(); }));
  // First the whole call on all ranks, so that the first cause of a failure is known.
  LOCKSTEP_RETURN_IF_ERROR(session.SyncAll());
  std::vector<RankValue> values;
  for (Rank rank = 0; rank < session.num_workers(); ++rank) {
    if (command.rank.value_or(rank) != rank) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(Value value, session.DebugGet(result, rank));
    values.push_back({rank, std::move(value)});
  }
  return values;
}

void Print(const std::vector<RankValue>& values, OutputFormat format) {
  if (format == OutputFormat::kJson) {
    std::cout << ToText(ToJson(values)) << '\n';
    return;
  }
  text::Table table({{"RANKS"}, {"RESULT"}});
  for (const SharedValue& group : GroupEqual(values)) {
    table.AddRow({RankRanges(group.ranks), Render(*group.value)});
  }
  table.Print(std::cout, text::Style::For(STDOUT_FILENO));
}

Status RunCall(const CallCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<Argument> arguments, ParseArguments(command.args));
  SessionOptions options;
  options.name = "lockstep call " + command.function;
  options.on_output = WorkerOutputPrinter(command.worker_output, command.format);
  std::unique_ptr<SessionInterrupt> interrupt;
  if (!command.target.embedded) {
    LOCKSTEP_ASSIGN_OR_RETURN(interrupt, SessionInterrupt::Make());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(OpenSession open, Open(command.target, std::move(options)));
  if (interrupt != nullptr) {
    interrupt->Protect([controller = *open.controller, id = open.session->id()] {
      return EndInterruptedSession(controller, id);
    });
  }
  if (command.rank.value_or(0) >= open.session->num_workers()) {
    return UsageError("there is no rank ", *command.rank, "; the cluster has ranks 0-",
                      open.session->num_workers() - 1);
  }
  const StatusOr<std::vector<RankValue>> values = Call(*open.session, command, arguments);
  if (!values.ok()) {
    return interrupt == nullptr ? values.status() : interrupt->Explain(values.status());
  }
  Print(*values, command.format);
  return open.session->Close();
}

}  // namespace

void AddCall(Command lockstep) {
  Command command = lockstep.AddCommand("call", "Call a function on all workers, show results");
  auto options = std::make_shared<CallCommand>();
  command.Add("FUNCTION", options->function, "a built-in function, or one of --module")
      .Required()
      .Placeholder("");
  command
      .Add("ARGS", options->args,
           "3  1.5  true  none  \"text\"  text:word  f32 (dtype)  [2, 3] (shape)\n"
           "[1, \"a\"] (list)  f32[2,2]=1,2,3,4 (tensor)  f32[8]=0 (filled)\n"
           "f32[8] (uninitialised)  npy:FILE  hex:00ff  cpu:0  {k: 1} (map)")
      .Placeholder("");
  command.Add("-m,--module", options->module, "library to load, in the workers' module path")
      .Placeholder("PATH");
  command.Add("-r,--rank", options->rank, "show this rank's result only")
      .Between(0, 1'000'000)
      .Placeholder("R");
  AddSessionOptions(command, options->target);
  AddOutputOption(command, options->format);
  AddWorkerOutputOption(command, options->worker_output);
  command.Examples(
      "  lockstep call lockstep.worker_rank\n"
      "  lockstep call lockstep.full '[2, 3]' 1.5 f32 --rank 0\n"
      "  lockstep call lockstep.cast i32[3]=1,2,3 bf16 --embedded\n"
      "  lockstep call add_one f32[4]=0 --module libmath.so\n"
      "  lockstep call lockstep.identity -- -inf          after --, nothing is an option\n");
  command.Do([options] { return RunCall(*options); });
}

}  // namespace lockstep::cli
