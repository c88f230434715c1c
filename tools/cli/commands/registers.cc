#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/register_text.h"
#include "tools/cli/target.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct RegistersCommand {
  TargetOptions target;
  std::optional<int> session;
  std::optional<int> rank;
  std::optional<int> limit;
  OutputFormat format = OutputFormat::kTable;
};

Status ShowRegisters(const RegistersCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(command.target));
  RegisterQuestion question;
  question.session = SessionId(static_cast<uint32_t>(command.session.value_or(0)));
  question.rank = command.rank.value_or(-1);
  question.most = static_cast<uint32_t>(command.limit.value_or(static_cast<int>(question.most)));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<RankRegisters> ranks,
                            QueryRegisters(controller, question, command.target));
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(RegistersToJson(ranks)) << '\n';
  } else {
    PrintRegisters(std::cout, text::Style::For(STDOUT_FILENO), ranks);
  }
  return OkStatus();
}

}  // namespace

void AddRegisters(Command lockstep) {
  Command command =
      lockstep.AddCommand("registers", "Show what the registers of sessions hold, on every rank");
  auto options = std::make_shared<RegistersCommand>();
  AddTargetOptions(command, options->target);
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
  AddOutputOption(command, options->format);
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
