// What a plan is: what moves and how that compares with the least that can, the steps of a rank,
// and where its memory goes. explain_text.h has it for people, explain_json.h for scripts.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/steps/program_steps.h"
#include "tools/cli/plan/plan_file.h"

namespace lockstep::cli::plan_file {

// One reshard: what it moves, and the least that any way of doing it moves. Bytes of the busiest
// rank, and of what the busiest node has to do with a network.
struct ReshardFacts {
  std::string where;  // "layers.yaml:12"
  std::string from;
  std::string to;
  std::string as;  // "allgather along x, exchange"
  double rank_bytes = 0;
  double rank_bound = 0;
  double node_bytes = 0;
  double node_bound = 0;
  double predicted_us = 0;
};
std::vector<ReshardFacts> FindReshards(const PlanFile& file);

// The plan's memory on ranks where it is the same: bytes.
struct MemoryFacts {
  std::vector<Rank> ranks;
  size_t steps = 0;
  int64_t peak = 0;
  int64_t live_at_once = 0;
  int64_t all_buffers = 0;
};
std::vector<MemoryFacts> FindMemory(const PlanFile& file);

// How a buffer of a rank's steps is called: by its value, or by a number.
std::string BufferName(const PlanFile& file, int buffer);

// A step of a rank, in words.
struct StepFacts {
  std::string kind;  // "call", "copy", "fill", "allgather", ...
  std::string where;
  std::string what;
  double bytes = 0;
  int lane = 1;        // 1: calls; 2: what ranks exchange
  int waits_for = -1;  // a step of the other lane; -1: none
};
struct BufferFacts {
  std::string name;
  plan::StepBuffer buffer;
  std::string lies_in;
};
struct RankFacts {
  std::vector<StepFacts> steps;
  std::vector<BufferFacts> buffers;  // without those that lie nowhere
};
// kInvalidArgument: the rank has no part in the plan.
StatusOr<RankFacts> FindRank(const PlanFile& file, Rank rank);
std::vector<StepFacts> DescribeSteps(const PlanFile& file, const plan::ProgramSteps& steps);

// How many nodes the plan's ranks lie on.
size_t CountNodes(const PlanFile& file);

struct SimulationFacts {
  size_t ranks = 0;
  size_t steps = 0;
  std::chrono::milliseconds took{0};
};
// Runs the collectives, copies and fills of all ranks on this thread (calls do nothing):
// kFailedPrecondition if ranks would wait for each other in a circle; kResourceExhausted: they hold
// more than one process is to take.
StatusOr<SimulationFacts> RunSimulation(const PlanFile& file);

}  // namespace lockstep::cli::plan_file
