// What a program is on one rank: lowered, and expanded to this rank's steps.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/plan_key.h"
#include "runtime/plan/steps/program_steps.h"

namespace lockstep::worker {

// What a program is prepared for, besides itself.
struct PlanWorld {
  Rank rank = 0;
  int world_size = 0;
  plan::Topology topology = {};
  bool lanes_overlap = false;  // this worker executes both lanes at the same time
  bool same_offsets = false;   // plan::ExpandOptions; the same on all ranks
  bool operator==(const PlanWorld&) const = default;
};

struct PreparedProgram {
  plan::LoweredProgram lowered;  // without its `ops`: the steps are all that is left of them
  plan::ProgramSteps steps;
  plan::PlanKey key = {};          // of the program
  std::vector<size_t> order = {};  // its operations, in the order of all ranks
  // Of each step: its lines in the program, which an execution tells. None: nobody wrote it.
  std::vector<std::string> places = {};

  // About what it takes of memory.
  size_t HeldBytes() const;
};

// kInvalidArgument for what is no program, or names what this world does not have; the errors of
// plan::LowerProgram().
StatusOr<std::shared_ptr<const PreparedProgram>> PrepareProgram(
    const plan::EncodedProgram& program, const PlanWorld& world,
    const std::function<bool()>& is_given_up = nullptr);

}  // namespace lockstep::worker
