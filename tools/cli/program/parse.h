// From a program file to a Program.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "services/config/problems.h"
#include "tools/cli/program/program.h"

namespace lockstep::cli::program {

// Reads the file at `path`; files that it names (npy) are read too. All that is wrong is added to
// `problems`, one line each: "FILE:LINE: step 3 (allreduce x): ...". Whether the steps fit each
// other and a cluster is CheckProgram()'s question.
//
// kNotFound: the file itself cannot be read.
StatusOr<Program> ReadProgramFile(const std::string& path, config::Problems& problems);

// The same for a text; `file` stands for it in messages, `directory` is where relative paths start.
Program ParseProgram(const std::string& text, const std::string& file, const std::string& directory,
                     config::Problems& problems);

}  // namespace lockstep::cli::program
