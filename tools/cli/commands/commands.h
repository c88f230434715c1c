// One function per command, each in a file of its name: it adds a subcommand to the application,
// and what shall happen when that one is chosen.
#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "runtime/base/status.h"

namespace lockstep::cli {

// What the command line asks for. Executed after parsing, so that CLI11 is out of the way by then.
struct Invocation {
  std::function<Status()> run;
};

void AddUp(CLI::App& app, Invocation& invocation);
void AddDown(CLI::App& app, Invocation& invocation);
void AddStatus(CLI::App& app, Invocation& invocation);
void AddWorkers(CLI::App& app, Invocation& invocation);
void AddWhy(CLI::App& app, Invocation& invocation);
void AddCall(CLI::App& app, Invocation& invocation);
void AddRun(CLI::App& app, Invocation& invocation);
void AddConfig(CLI::App& app, Invocation& invocation);
void AddVersion(CLI::App& app, Invocation& invocation);

}  // namespace lockstep::cli
