#include <unistd.h>

#include <iostream>
#include <memory>
#include <vector>

#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/session_text.h"
#include "tools/cli/target.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct SessionsCommand {
  TargetOptions target;
  OutputFormat format = OutputFormat::kTable;
};

Status ShowSessions(const SessionsCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(command.target));
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryCluster(controller, command.target));
  std::vector<RankRegisters> ranks;
  if (!status.sessions.empty()) {
    RegisterQuestion how_many;
    how_many.most = 0;
    auto told = QueryRegisters(controller, how_many, command.target);
    // What the controller knows is worth showing all the same.
    if (!told.ok()) text::Warn("what the sessions hold is not known: " + Message(told.status()));
    if (told.ok()) ranks = *std::move(told);
  }
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(SessionDetailsToJson(status.sessions, ranks)) << '\n';
  } else {
    PrintSessionDetails(std::cout, text::Style::For(STDOUT_FILENO), status.sessions, ranks);
  }
  return OkStatus();
}

}  // namespace

void AddSessions(Command lockstep) {
  Command command = lockstep.AddCommand("sessions", "List a cluster's sessions and what they hold");
  auto options = std::make_shared<SessionsCommand>();
  AddTargetOptions(command, options->target);
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep sessions\n"
      "  lockstep sessions --output json | jq '.[] | select(.error)'\n\n"
      "SENT is what went to the workers, WAITING what the slowest of them has yet to execute.\n"
      "REGISTERS is for each rank, BYTES for all ranks together. A session that is detached has\n"
      "no client, but another may attach; it is orphaned if its client fell silent.\n");
  command.Do([options] { return ShowSessions(*options); });
}

}  // namespace lockstep::cli
