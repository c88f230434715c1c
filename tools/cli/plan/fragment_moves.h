// What the fragments of a plan are given, and what moves for that in each execution.
#pragma once

#include <string>
#include <vector>

#include "tools/cli/plan/plan_file.h"

namespace lockstep::cli::plan_file {

// A tensor that a fragment reads or makes.
struct FragmentTensorFacts {
  std::string name;  // as in the file
  bool is_result = false;
  std::string how;  // "rows", "placed", ...: its split, or how it is combined
  // What all ranks together send of it in each execution: to bring an input to where the call wants
  // it, or a result to where later operations do, other than calls of fragments, whose input it is
  // then. 0: it stays where it is.
  double sent_bytes = 0;
};

// One call.
struct FragmentFacts {
  std::string where;  // "layers.yaml:12"
  std::string name;
  std::vector<FragmentTensorFacts> tensors;  // inputs that are numbers are none
};
std::vector<FragmentFacts> FindFragments(const PlanFile& file);

}  // namespace lockstep::cli::plan_file
