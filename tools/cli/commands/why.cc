#include <unistd.h>

#include <iostream>
#include <memory>

#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/story_text.h"
#include "tools/cli/target.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct WhyCommand {
  TargetOptions target;
  OutputFormat format = OutputFormat::kTable;
};

Status Why(const WhyCommand& command) {
  LOCKSTEP_ASSIGN_OR_RETURN(const ControllerAddress controller, ResolveController(command.target));
  LOCKSTEP_ASSIGN_OR_RETURN(const ClusterStatus status, QueryWhy(controller, command.target));
  const ClusterStory story = TellStory(status);
  if (command.format == OutputFormat::kJson) {
    std::cout << ToText(StoryToJson(status, story)) << '\n';
  } else {
    PrintStory(std::cout, text::Style::For(STDOUT_FILENO), status, story);
  }
  return OkStatus();
}

}  // namespace

void AddWhy(Command lockstep) {
  Command command = lockstep.AddCommand("why", "Explain why a cluster does not go on");
  auto options = std::make_shared<WhyCommand>();
  AddTargetOptions(command, options->target);
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep why\n"
      "  lockstep why --name demo\n"
      "  lockstep why --output json | jq -r .summary\n\n"
      "Asks every worker what it is doing at this moment, and for the stack of the thread that\n"
      "does it (which is interrupted by a signal for that). Tells who holds the others up.\n");
  command.Do([options] { return Why(*options); });
}

}  // namespace lockstep::cli
