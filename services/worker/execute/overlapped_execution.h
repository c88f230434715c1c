// One execution of a bound plan whose two lanes go on at the same time: the executing thread calls
// functions, another one exchanges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/steps/program_steps.h"
#include "services/worker/execute/communication_lane.h"
#include "services/worker/execute/plan_execution.h"

namespace lockstep::worker {

// Of plans in host memory: a GPU has two streams for the same.
//
// Threads: the executing thread, on which all is told that is told of the steps of both lanes.
class OverlappedExecution {
 public:
  // All are borrowed.
  OverlappedExecution(BoundSteps& plan, const PlanExecution::Worker& worker,
                      CommunicationLane& lane)
      : plan_(plan), worker_(worker), lane_(lane), calls_(plan, worker) {}

  // As PlanExecution::Run().
  Status Run();

 private:
  // Goes through the steps of the compute lane.
  Status Compute();
  // Waits for the other lane to come to the end of that step (or of all), and says for what. False:
  // it was given up.
  bool AwaitExchanges(int step);

  // On the lane's thread: goes through its steps.
  void Exchange();
  Status ExchangeStep(const plan::ProgramStep& step);

  // Counts and records what the lane has done.
  void TellOfExchanges() const;

  const std::vector<plan::ProgramStep>& steps() const { return plan_.prepared->steps.steps; }

  BoundSteps& plan_;
  const PlanExecution::Worker& worker_;
  CommunicationLane& lane_;
  PlanExecution calls_;
  LaneProgress progress_;
  size_t told_ = 0;  // the steps before were waited for
  // Of the lane's thread; of this one when that is through.
  size_t next_collective_ = 0;
  size_t next_time_ = 0;
  Status exchanged_;
};

}  // namespace lockstep::worker
