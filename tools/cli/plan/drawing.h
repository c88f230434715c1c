// A plan as a picture: what each rank does over time, and where one rank's memory goes.
#pragma once

#include <string>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "tools/cli/plan/plan_file.h"

namespace lockstep::cli::plan_file {

// An SVG. The memory map is that of `memory_of`. Times are predicted (schedule.h).
// kInvalidArgument: that rank has no part in the plan, or there are too many ranks to draw.
StatusOr<std::string> DrawPlan(const PlanFile& file, Rank memory_of);

}  // namespace lockstep::cli::plan_file
