#include "tools/cli/completion.h"

#include <iostream>
#include <memory>
#include <string>

#include "tools/cli/commands/commands.h"

namespace lockstep::cli {

void AddCompletion(Command lockstep) {
  Command command = lockstep.AddCommand("completion", "Print a script for a shell's completion");
  auto shell = std::make_shared<std::string>();
  command.Add("SHELL", *shell, "bash, zsh or fish").Required().Placeholder("");
  command.Examples(
      "  lockstep completion bash\n"
      "  lockstep completion zsh\n"
      "  lockstep completion fish\n\n"
      "In ~/.bashrc, or in ~/.zshrc after compinit: source <(lockstep completion bash), or zsh.\n"
      "In ~/.config/fish/config.fish: lockstep completion fish | source\n");
  command.Do([shell, lockstep]() -> Status {
    const StatusOr<std::string> script = CompletionScript(*shell, lockstep.Describe());
    if (!script.ok()) return WithExitCode(script.status(), ExitCode::kUsage);
    std::cout << *script;
    return OkStatus();
  });
}

void AddHelp(Command lockstep) {
  Command command = lockstep.AddCommand("help", "Explain a command");
  // CommandLine::Parse() does it: `help COMMAND` is `COMMAND --help`.
  command.Examples("  lockstep help up\n  lockstep help keys new\n");
  command.Do([] { return OkStatus(); });
}

}  // namespace lockstep::cli
