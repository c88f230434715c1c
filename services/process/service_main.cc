#include "services/process/service_main.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "runtime/base/log.h"
#include "runtime/base/quantity.h"
#include "runtime/base/version.h"
#include "runtime/control/keys/key.h"
#include "services/process/health_check.h"

namespace lockstep::process {
namespace {

std::string Footer(const ServiceProgram& program) {
  std::string text = "\nExamples:\n" + program.examples;
  if (!program.settings.empty()) text += "\nSettings (docs/configuration.md):\n";
  size_t width = 0;
  for (const config::Setting& setting : program.settings) {
    width = std::max(width, setting.key.size());
  }
  for (const config::Setting& setting : program.settings) {
    if (setting.refused) continue;
    text += "  " + setting.key + std::string(width - setting.key.size() + 2, ' ') + setting.doc +
            (setting.required ? " Required." : " Default: " + setting.fallback + ".") + "\n";
  }
  return text +
         "\nExit codes: 0 stopped in order, 1 failed, 2 wrong command line or configuration.";
}

// The session stays. If its leader gave the terminal up, all of the session would lose it, and be
// hung up: so a leader keeps it.
void LeaveTerminal() {
  if (getsid(0) == getpid()) return;
  const int terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) return;  // it has none
  ioctl(terminal, TIOCNOTTY);
  close(terminal);
}

}  // namespace

std::optional<int> ParseCommandLine(const ServiceProgram& program, int argc, char** argv,
                                    ServiceFlags* flags) {
  log::UseStandardError(program.name);
  CLI::App app(program.description, program.name);
  app.footer(Footer(program));
  app.set_version_flag("--version", program.name + " " + kBuildVersion);
  app.add_option("--config", flags->sources.file,
                 "Reads settings from this YAML file; -: from standard input,\n"
                 "to its end or a line \"...\"")
      ->type_name("FILE");
  app.add_option("--set", flags->sources.assignments, "Overrides one setting; may be given often")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  app.add_option("--die-with-parent", flags->parent,
                 "Stops when process PID, which must be the parent, ends")
      ->type_name("PID")
      ->check(CLI::PositiveNumber);
  app.add_flag("--die-with-input", flags->die_with_input,
               "Stops when the standard input ends, as that of a command over ssh does");
  app.add_flag("--leave-terminal", flags->leave_terminal,
               "Has no terminal any more that what it runs could write to, or wait for");
  if (!program.settings.empty()) {
    app.add_flag("--check-health", flags->check_health,
                 "Asks the service that runs with these settings whether it is healthy,\n"
                 "and ends: with 0 if it is, else with 1");
    app.add_option("--await-idle", flags->await_idle,
                   "Waits until the service that runs with these settings has no open session,\n"
                   "and ends: with 0 then, with 1 after DURATION")
        ->type_name("DURATION")
        ->excludes("--check-health");
  }
  for (const TextFlag& flag : program.flags) {
    app.add_option(flag.name, *flag.value, flag.doc)->type_name(flag.type);
  }
  if (const Status status = control::CheckNoSecrets(argc, argv); !status.ok()) {
    return Fail(status, kWrongUsage);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kStopped : kWrongUsage;
  }
  if (flags->leave_terminal) LeaveTerminal();
  return std::nullopt;
}

std::optional<int> AskTheOneThatRuns(const ServiceFlags& flags,
                                     const std::string& metrics_endpoint) {
  if (!flags.check_health && flags.await_idle.empty()) return std::nullopt;
  Status status;
  if (flags.check_health) {
    status = AskForHealth(metrics_endpoint);
  } else {
    const auto patience = ParseDuration(flags.await_idle);
    if (!patience.ok()) return Fail(Annotate(patience.status(), "--await-idle"), kWrongUsage);
    status = AwaitIdle(metrics_endpoint, *patience);
  }
  return status.ok() ? kStopped : Fail(status, kFailed);
}

StatusOr<std::unique_ptr<StopRequest>> WatchForStop(const ServiceFlags& flags) {
  return StopRequest::Watch(flags.parent, flags.die_with_input ? STDIN_FILENO : -1);
}

int FailToStart(const Status& status, const StopRequest& stop) {
  return stop.Came() ? kStopped : Fail(status, kFailed);
}

int Fail(const Status& status, int exit_code) {
  std::istringstream lines(Message(status));
  for (std::string line; std::getline(lines, line);) log::Critical(line);
  return exit_code;
}

}  // namespace lockstep::process
