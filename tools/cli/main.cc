// lockstep: starts clusters on this host, looks at them, and runs things on them.
#include <unistd.h>

#include <exception>
#include <iostream>
#include <sstream>
#include <string>

#include "runtime/base/version.h"
#include "runtime/control/keys/key.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

// Line by line: an error may have several, and none of them is to command the terminal.
void ReportError(const Status& status) {
  const text::Style style = text::Style::For(STDERR_FILENO);
  std::istringstream lines(Message(status));
  std::cerr << style.Paint(text::Tint::kRed, "lockstep:") << ' ';
  for (std::string line; std::getline(lines, line);) std::cerr << text::Printable(line) << '\n';
}

int Main(int argc, char** argv) {
  CommandLine command_line("lockstep", kBuildVersion,
                           "Drives a Lockstep cluster: one program, many workers in lockstep.");
  Command lockstep = command_line.root();
  lockstep.Examples(
      "  lockstep up --workers 4 --detach     start a cluster on this host\n"
      "  lockstep status                      look at it\n"
      "  lockstep run program.yaml            run a program on it\n"
      "  lockstep down                        stop it\n"
      "  lockstep run program.yaml --embedded --workers 4    all of it in one process\n"
      "\n`lockstep COMMAND --help` tells more about a command.\n");
  AddUp(lockstep);
  AddDown(lockstep);
  AddStatus(lockstep);
  AddWorkers(lockstep);
  AddWhy(lockstep);
  AddSessions(lockstep);
  AddRegisters(lockstep);
  AddTop(lockstep);
  AddLogs(lockstep);
  AddCall(lockstep);
  AddExecute(lockstep);
  AddRun(lockstep);
  AddTrace(lockstep);
  AddPlan(lockstep);
  AddConfig(lockstep);
  AddKeys(lockstep);
  AddDoctor(lockstep);
  AddVersion(lockstep);
  AddCompletion(lockstep);
  AddHelp(lockstep);

  if (argc == 1) {
    std::cout << command_line.Help();
    return static_cast<int>(ExitCode::kUsage);
  }
  if (const Status status = control::CheckNoSecrets(argc, argv); !status.ok()) {
    ReportError(status);
    return static_cast<int>(ExitCode::kUsage);
  }
  const StatusOr<Action> action = command_line.Parse(argc, argv);
  if (!action.ok()) {
    ReportError(action.status());
    return static_cast<int>(ExitCode::kUsage);
  }
  const Status status = (*action)();
  std::cout.flush();
  if (!status.ok()) ReportError(status);
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  try {
    return lockstep::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "lockstep: " << error.what() << '\n';
    return static_cast<int>(lockstep::cli::ExitCode::kFailed);
  }
}
