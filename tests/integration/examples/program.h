// Running the built programs, with a deadline, and reading what they print.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/support/files.h"

namespace lockstep::examples {

using support::ReadFile;
using support::ScratchDirectory;

struct ProgramResult {
  int exit_code = -1;
  std::string output;  // standard output and error
};

// Runs the program that is built at `repo_path`, relative to the repository's root, in `scratch`
// and with `scratch` as the user's runtime directory. An error if it cannot be started, is ended by
// a signal, or takes longer than two minutes (it is killed then).
StatusOr<ProgramResult> RunProgram(const ScratchDirectory& scratch, const std::string& repo_path,
                                   const std::vector<std::string>& arguments);

}  // namespace lockstep::examples
