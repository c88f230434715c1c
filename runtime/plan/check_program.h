// Whether the parts of a program make one: Program::Make() says what cannot be.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/program.h"

namespace lockstep::plan {

// Messages call values by `value_names`, where there is one for the number; else by their own
// names, or numbers. An operation's mistake is told with its line.
Status CheckProgram(const Program::Parts& parts, const std::vector<std::string>& value_names);

}  // namespace lockstep::plan
