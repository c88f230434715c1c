// When each rank does each of its steps, as the cost model predicts it.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/lowering/traffic.h"
#include "runtime/plan/steps/program_steps.h"

namespace lockstep::cli::plan_file {

// How long a function takes is not known: each call is drawn as if it took this long, and each
// chunk of one its part of that. (To predict what the rest takes, it is given as 0.)
constexpr double kCallMicros = 20;

// In microseconds from the beginning. A rank that comes to a collective before others waits from
// `arrived` to `begin`.
struct ScheduledStep {
  double arrived = 0;
  double begin = 0;
  double end = 0;
};

// For each rank, its steps in their order.
std::map<Rank, std::vector<ScheduledStep>> Schedule(const std::map<Rank, plan::ProgramSteps>& ranks,
                                                    const plan::Topology& topology,
                                                    const plan::CostModel& costs,
                                                    double call_micros = kCallMicros);

}  // namespace lockstep::cli::plan_file
