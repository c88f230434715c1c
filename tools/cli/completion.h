// Scripts by which shells complete the command line, made from what the commands declare.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "tools/cli/command_line.h"

namespace lockstep::cli {

// For `shell` (bash, zsh or fish). kInvalidArgument: there is none for another.
StatusOr<std::string> CompletionScript(const std::string& shell, const Words& program);

}  // namespace lockstep::cli
