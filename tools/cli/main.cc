// lockstep: starts clusters on this host, looks at them, and runs things on them.

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/control/host.h"
#include "services/config/settings.h"
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

// The command line as CLI11 wants it: last argument first. CLI11 would take "[2, 3]" apart as a
// list of its own, and refuses a "--" that stands behind the first of the arguments of `call`.
// There a blank in front, which means nothing in YAML, tells it what is a value.
std::vector<std::string> ReversedArguments(int argc, char** argv) {
  const bool is_call = std::string_view(argv[1]) == "call";
  bool only_values = false;
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (is_call && !only_values && argument == "--") {
      only_values = true;
      continue;
    }
    const bool is_value = argument.starts_with('[') || (only_values && argument.starts_with('-'));
    arguments.emplace_back(is_value ? " " : "");
    arguments.back() += argument;
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

// CLI11 would say of a misspelt command only that one is missing.
Status CheckCommand(const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) return OkStatus();
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), word) != names.end()) return OkStatus();
  const std::string nearest = config::Nearest(word, names);
  return InvalidArgument("there is no command \"", word, "\"",
                         nearest.empty() ? "" : " (did you mean \"" + nearest + "\"?)",
                         "; `lockstep --help` lists them");
}

int Main(int argc, char** argv) {
  CLI::App app("Drives a Lockstep cluster: one program, many workers in lockstep.", "lockstep");
  app.set_version_flag("--version", std::string("lockstep ") + control::kBuildVersion);
  app.require_subcommand(1);
  app.formatter(std::make_shared<HelpFormatter>());
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
  AddWhy(app, invocation);
  AddCall(app, invocation);
  AddRun(app, invocation);
  AddConfig(app, invocation);
  AddVersion(app, invocation);

  if (argc == 1) {
    std::cout << app.help();
    return static_cast<int>(ExitCode::kUsage);
  }
  if (const Status known = CheckCommand(app, argv[1]); !known.ok()) {
    ReportError(known);
    return static_cast<int>(ExitCode::kUsage);
  }
  try {
    app.parse(ReversedArguments(argc, argv));
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too.
    if (error.get_exit_code() == 0) return app.exit(error);
    const bool has_command = !app.get_subcommands().empty();
    ReportError(InvalidArgument(error.what(), "; `lockstep ", has_command ? argv[1] : "",
                                has_command ? " " : "", "--help` tells more"));
    return static_cast<int>(ExitCode::kUsage);
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
