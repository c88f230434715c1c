// What the main functions of the two services share: command line, logs, and running until stopped.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "services/config/settings.h"
#include "services/process/stop_signals.h"

namespace lockstep::process {

// Exit codes.
inline constexpr int kStopped = 0;     // after an orderly stop
inline constexpr int kFailed = 1;      // could not start, or had to give up
inline constexpr int kWrongUsage = 2;  // command line or configuration

// A flag that only one of the services has.
struct TextFlag {
  std::string name;  // "--write-endpoints"
  std::string type;  // "FILE"
  std::string doc;
  std::string* value;
};

struct ServiceProgram {
  std::string name;         // "lockstep-worker"
  std::string description;  // one sentence
  std::string examples;     // lines of a shell
  config::Settings settings;
  std::vector<TextFlag> flags = {};
};

struct ServiceFlags {
  config::Sources sources;
  pid_t parent = 0;             // --die-with-parent; 0: not given
  bool die_with_input = false;  // --die-with-input
  bool leave_terminal = false;  // --leave-terminal
  bool check_health = false;    // --check-health
  std::string await_idle;       // --await-idle; empty: not given
};

// Sets up logging to standard error and reads the command line. An exit code if the program is to
// end here: after --help and --version, or because of a mistake, which has been printed.
std::optional<int> ParseCommandLine(const ServiceProgram& program, int argc, char** argv,
                                    ServiceFlags* flags);

// Logs why the program ends, one line for each of the message's, and returns `exit_code`.
int Fail(const Status& status, int exit_code);

// --check-health and --await-idle: asks the one that runs with this configuration; the exit code if
// the program is to end with that.
std::optional<int> AskTheOneThatRuns(const ServiceFlags& flags,
                                     const std::string& metrics_endpoint);

// From here on the process is asked to end by a signal, or because the parent or the standard input
// has ended, where `flags` ask for that. To be called before any other thread exists.
StatusOr<std::unique_ptr<StopRequest>> WatchForStop(const ServiceFlags& flags);

// The exit code of a service that did not start, which is no failure where it was not to start.
int FailToStart(const Status& status, const StopRequest& stop);

// Waits until `service` has stopped, by itself or because it was asked to. Returns the exit code.
template <typename Service>
int AwaitEnd(Service& service, StopRequest& stop) {
  stop.Forward([&service](const std::string& reason) { service.RequestStop(reason); });
  Status status;
  do {
    status = service.Wait(Deadline::After(std::chrono::hours(1)));
  } while (status.code() == StatusCode::kDeadlineExceeded);
  stop.Forward(nullptr);
  if (!status.ok()) return Fail(status, kFailed);
  return kStopped;
}

// The same of a service whose end is the program's: what comes after it is not timed any more.
template <typename Service>
int RunUntilStopped(Service& service, std::unique_ptr<StopRequest> stop) {
  return AwaitEnd(service, *stop);
}

}  // namespace lockstep::process
