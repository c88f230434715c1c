// Program files that tests have as text.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "services/config/problems.h"
#include "tools/cli/program/parse.h"

namespace lockstep::cli::program {

inline StatusOr<Program> Parse(const std::string& text) {
  config::Problems problems;
  Program program = ParseProgram(text, "p.yaml", ".", problems);
  LOCKSTEP_RETURN_IF_ERROR(problems.ToStatus());
  return program;
}

}  // namespace lockstep::cli::program
