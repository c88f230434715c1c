// What can be known about a program before anything is executed.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "tools/cli/program/program.h"

namespace lockstep::cli::program {

// Follows the program step by step and reports, all at once: registers that are used before they
// are made or after they are freed; and on a world of `workers` ranks (0: not known yet) ranks and
// groups that do not exist, and registers that are read on ranks where they hold nothing.
//
// kInvalidArgument with one line per problem: "FILE:LINE: step 3 (allreduce x): ...".
Status CheckProgram(const Program& program, int workers);

// Reads the file at `path` and checks it as far as it can be read, so that all that is wrong is
// reported at once; on as many workers as the file says. kNotFound: the file cannot be read.
StatusOr<Program> LoadProgram(const std::string& path);

}  // namespace lockstep::cli::program
