// From a list of steps in YAML to Steps.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/program/program.h"
#include "tools/cli/program/step_reader.h"

namespace lockstep::cli::program {

// What is wrong is reported to `file`; the steps are complete only if nothing is. `prefix` numbers
// the steps of a repeat: "3.".
std::vector<Step> ParseSteps(const YAML::Node& list, const std::string& prefix, FileContext& file);

}  // namespace lockstep::cli::program
