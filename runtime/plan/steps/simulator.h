// Simulator: executes the steps of all ranks on one thread. The oracle of tests, and of
// `lockstep plan explain --simulate`.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/steps/program_steps.h"

namespace lockstep::plan {

// The contents of a buffer, or of an arena.
using SimulatedBuffer = std::vector<std::byte>;

struct SimulatedRank {
  ProgramSteps program;
  // By buffer: of inputs, and of what functions return.
  std::vector<SimulatedBuffer> own;
  SimulatedBuffer arena;

  // Makes all of it, full of 0.
  void Allocate();
  // Where a buffer begins.
  std::byte* At(int buffer);
};

// Does what the function of a call would do to the rank's buffers.
using SimulatedCall = std::function<Status(Rank, const CallStep&, SimulatedRank&)>;

// Runs each rank up to its next collective, and a collective when its whole team has come to it;
// combines elements in the order of the team. The ranks are allocated, and their inputs filled.
//
// kInvalidArgument: a step reads or writes outside a buffer, or a rank is not in the team of its
// collective; kFailedPrecondition: ranks wait for each other in a circle, or disagree about a
// collective; the errors of `call`. The message names rank and step.
Status Simulate(std::map<Rank, SimulatedRank>& ranks, const SimulatedCall& call = nullptr);

}  // namespace lockstep::plan
