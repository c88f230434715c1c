// From a program file to a Program.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "tools/cli/program/program.h"

namespace lockstep::cli::program {

// Reads and checks the file at `path`; files that it names (npy) are read too. All that is wrong is
// reported at once, one line each: "FILE:LINE: step 3 (allreduce x): ...".
//
// Errors: kNotFound the file cannot be read; kInvalidArgument it is wrong. Whether it fits a
// cluster is CheckProgram()'s question.
StatusOr<Program> ReadProgramFile(const std::string& path);

// The same for a text; `file` stands for it in messages, `directory` is where relative paths start.
StatusOr<Program> ParseProgram(const std::string& text, const std::string& file,
                               const std::string& directory);

}  // namespace lockstep::cli::program
