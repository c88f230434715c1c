// Expanding: from what all ranks do (a Reshard) to the steps of one of them.
#pragma once

#include "runtime/base/ids.h"
#include "runtime/plan/lowering/reshard.h"
#include "runtime/plan/steps/step.h"

namespace lockstep::plan {

// The steps of `rank`, which may be in neither mesh: then it has none. Buffer 0 holds its tile of
// `reshard.from`, buffer 1 becomes its tile of `reshard.to`; further ones are for use in between.
// Deterministic: what ranks expand by themselves fits together.
RankSteps Expand(const Reshard& reshard, Rank rank);

}  // namespace lockstep::plan
