// From a lowered program to the steps of one rank, whose buffers have no place in memory yet.
#pragma once

#include <functional>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/steps/program_steps.h"

namespace lockstep::plan {

struct StepsWithoutPlaces {
  // Nothing is said of the arena, nor of the steps while buffers are in use.
  ProgramSteps steps;
  // By step: which of LoweredProgram::ops it is of.
  std::vector<int> positions;
};

// kAborted: `is_given_up`, which is asked now and then, was true.
StatusOr<StepsWithoutPlaces> MakeSteps(const LoweredProgram& lowered, Rank rank,
                                       const ExpandOptions& options,
                                       const std::function<bool()>& is_given_up);

}  // namespace lockstep::plan
