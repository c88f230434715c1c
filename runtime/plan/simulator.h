// Simulator: executes the steps of all ranks on one thread. The oracle of tests, and of
// `lockstep plan explain --simulate`.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/step.h"

namespace lockstep::plan {

// The contents of a buffer, and of all of one rank.
using SimulatedBuffer = std::vector<std::byte>;

struct SimulatedRank {
  RankSteps program;
  // Input, output and scratch memory, sized by `program`; the input is filled by the caller.
  std::vector<SimulatedBuffer> buffers;
};

// Runs each rank up to its next collective, and a collective when its whole team has come to it;
// combines elements in the order of the team.
//
// kInvalidArgument: a step reads or writes outside a buffer, or a rank is not in the team of its
// collective; kFailedPrecondition: ranks wait for each other in a circle, or disagree about a
// collective. The message names rank and step.
Status Simulate(std::map<Rank, SimulatedRank>& ranks, DType dtype);

}  // namespace lockstep::plan
