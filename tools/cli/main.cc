// lockstep: starts clusters on this host, looks at them, and runs things on them.

#include <unistd.h>

#include <exception>
#include <iostream>

#include "runtime/control/host.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/output.h"

namespace lockstep::cli {
namespace {

void ReportError(const Status& status) {
  const Style style = Style::For(STDERR_FILENO);
  std::cerr << style.Paint(Tint::kRed, "lockstep:") << ' ' << Message(status) << '\n';
}

int Main(int argc, char** argv) {
  CLI::App app("Drives a Lockstep cluster: one program, many workers in lockstep.", "lockstep");
  app.set_version_flag("--version", std::string("lockstep ") + control::kBuildVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  AddExamples(app,
              "  lockstep up --workers 4 --detach     start a cluster on this host\n"
              "  lockstep status                      look at it\n"
              "  lockstep run program.yaml            run a program on it\n"
              "  lockstep down                        stop it\n"
              "  lockstep run program.yaml --embedded --workers 4    all of it in one process\n"
              "\n`lockstep COMMAND --help` tells more about a command.\n");
  Invocation invocation;
  AddUp(app, invocation);
  AddDown(app, invocation);
  AddStatus(app, invocation);
  AddWorkers(app, invocation);
  AddCall(app, invocation);
  AddRun(app, invocation);
  AddConfig(app, invocation);
  AddVersion(app, invocation);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too, with exit code 0.
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk)
                                : static_cast<int>(ExitCode::kUsage);
  }
  const Status status = invocation.run();
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
