// Predicted beside measured: what the steps of a plan took on real workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/plan/steps/program_steps.h"
#include "tools/cli/plan/plan_file.h"
#include "tools/cli/value_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli::plan_file {

// One step of one execution on one rank, as a timeline has it. Nanoseconds of one clock.
struct MeasuredStep {
  uint64_t execution = 0;  // any number, the same on all ranks
  size_t step = 0;
  int64_t begin = 0;
  int64_t end = 0;
  std::string name;  // "allgather, layers.yaml:12"
};

// Microseconds. Of a collective, what a rank waits for the last one of its team is not what the
// step took.
struct StepAnalysis {
  double predicted = 0;
  double measured = 0;        // median over the executions
  double waited = 0;          // the same
  bool is_predicted = false;  // how long a function takes is not known
};

struct RankAnalysis {
  plan::ProgramSteps steps;
  std::vector<StepAnalysis> times;  // by step
  double measured = 0;              // all of them, without waiting
};

struct PlanAnalysis {
  size_t executions = 0;
  // Of an execution, from the first begin to the last end on any rank. Microseconds.
  double median = 0;
  double fastest = 0;
  double slowest = 0;
  double predicted = 0;  // without functions
  std::map<Rank, RankAnalysis> ranks;
  Rank slowest_rank = 0;  // that works longest
};

// kInvalidArgument: the plan has ranks that so few workers do not have.
Status CheckWorkers(const PlanFile& file, int workers);

// `file` is lowered for the topology of those ranks. kFailedPrecondition: a rank has recorded other
// steps than it has by that, or not all of them.
StatusOr<PlanAnalysis> Analyze(const PlanFile& file,
                               const std::map<Rank, std::vector<MeasuredStep>>& measured);

// The whole, and the steps of one rank.
void PrintAnalysis(std::ostream& out, const text::Style& style, const PlanFile& file,
                   const PlanAnalysis& analysis, Rank rank);
// The same of all ranks.
Json AnalysisToJson(const PlanFile& file, const PlanAnalysis& analysis);

}  // namespace lockstep::cli::plan_file
