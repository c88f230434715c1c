#include <unistd.h>

#include <iostream>
#include <memory>

#include "tools/cli/cluster_text.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/target.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct StatusCommand {
  TargetOptions target;
  OutputFormat format = OutputFormat::kTable;
};

Status ShowStatus(const StatusCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(command.target));
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryCluster(controller, command.target));
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(ClusterToJson(status, controller.endpoint)) << '\n';
    return OkStatus();
  }
  const text::Style style = text::Style::For(STDOUT_FILENO);
  PrintCluster(std::cout, style, status, controller.endpoint);
  std::cout << '\n';
  PrintWorkers(std::cout, style, status.workers);
  if (!status.sessions.empty()) {
    std::cout << '\n';
    PrintSessions(std::cout, style, status.sessions);
  }
  return OkStatus();
}

Status ShowWorkers(const StatusCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(command.target));
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryCluster(controller, command.target));
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(WorkersToJson(status.workers)) << '\n';
  } else {
    PrintWorkers(std::cout, text::Style::For(STDOUT_FILENO), status.workers);
  }
  return OkStatus();
}

}  // namespace

void AddStatus(Command lockstep) {
  Command command = lockstep.AddCommand("status", "Show a cluster, its workers and its sessions");
  auto options = std::make_shared<StatusCommand>();
  AddTargetOptions(command, options->target);
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep status\n"
      "  lockstep status --name demo\n"
      "  lockstep status --connect tcp://127.0.0.1:7000 --output json\n");
  command.Do([options] { return ShowStatus(*options); });
}

void AddWorkers(Command lockstep) {
  Command command = lockstep.AddCommand("workers", "List a cluster's workers and their progress");
  auto options = std::make_shared<StatusCommand>();
  AddTargetOptions(command, options->target);
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep workers\n"
      "  lockstep workers --output json | jq '.[] | select(.state != \"ready\")'\n\n"
      "Counters since a worker's start: RECEIVED batches, LAUNCHED and COMPLETED commands.\n"
      "LAUNCHED ahead of COMPLETED for long means that a command does not end.\n");
  command.Do([options] { return ShowWorkers(*options); });
}

}  // namespace lockstep::cli
