// A plan as a picture: what each rank does over time, and where one rank's memory goes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "tools/cli/plan/plan_file.h"

namespace lockstep::cli::plan_file {

// What is drawn of a plan, and what it shows.
struct Drawing {
  std::string svg;
  std::vector<Rank> ranks;  // whose steps are drawn
  size_t all = 0;           // how many ranks the plan has
  Rank memory_of = 0;
};

// An SVG of at most 64 ranks: where the plan has more, those around `memory_of`, whose memory map
// is drawn, too. Times are predicted (schedule.h), from what all ranks do.
// kInvalidArgument: that rank has no part in the plan.
StatusOr<Drawing> DrawPlan(const PlanFile& file, Rank memory_of);

// "steps of ranks 468-531, of 1,024; memory of rank 500"
std::string Describe(const Drawing& drawing);

}  // namespace lockstep::cli::plan_file
