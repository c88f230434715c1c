// Whether workers with GPUs launch a plan as one graph, as far as that can be told without them.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/plan/plan_file.h"

namespace lockstep::cli::plan_file {

struct GraphOnGpus {
  // The first call of a built-in function that cannot be captured; empty: there is none.
  std::string why_not;
  // Functions that modules define, which say it of themselves: each once, where it is called first.
  std::vector<std::string> up_to;
};
GraphOnGpus FindGraphOnGpus(const PlanFile& file);

// "one graph", "step by step, as ...", or "one graph, if ... may be captured".
std::string Describe(const GraphOnGpus& graph);

}  // namespace lockstep::cli::plan_file
