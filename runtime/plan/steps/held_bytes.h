// How much memory lowered plans take, about: what caches of them are bounded by.
#pragma once

#include <cstddef>

#include "runtime/plan/steps/program_steps.h"

namespace lockstep::plan {

// With all that they point to; what was allocated and is not used does not count.
size_t HeldBytes(const ProgramSteps& steps);
size_t HeldBytes(const Program& program);
// Of these, what the operations say in letters: lines, axes and literals.
size_t TextBytes(const Program& program);

}  // namespace lockstep::plan
