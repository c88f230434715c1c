// The same as explain.h, for scripts: docs/plans.md has the object.
#pragma once

#include "runtime/base/ids.h"
#include "tools/cli/plan/explain.h"
#include "tools/cli/value_text.h"

namespace lockstep::cli::plan_file {

// What ExplainPlan() prints.
Json PlanToJson(const PlanFile& file);
Json RankToJson(Rank rank, const RankFacts& facts);
Json SimulationToJson(const SimulationFacts& facts);

}  // namespace lockstep::cli::plan_file
