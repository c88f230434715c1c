// A bound plan on one rank's GPU: how its ranks agree on each execution, and whether it is executed
// step by step or launched as one graph.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "services/worker/execute/plan_agreement.h"
#include "services/worker/execute/plan_execution.h"
#include "services/worker/execute/plan_graphs.h"
#include "services/worker/execute/session_state.h"

namespace lockstep::worker {

// An execution of inputs that come for the first time is done step by step, and connects the ranks
// by all that NCCL does for it. The second time, the steps are captured; from then on the graph is
// launched. All ranks do the same: whether a collective is captured is a matter of all of its
// ranks, and so is each launch.
//
// Threads: the executing thread.
class GpuPlan {
 public:
  // `steps` and `kept` are the plan's, connected; borrowed. `may_be_captured`: of the program's
  // functions. All ranks of the program meet.
  static StatusOr<std::unique_ptr<GpuPlan>> Bind(BoundSteps& steps, KeptCommunicators& kept,
                                                 std::vector<bool> may_be_captured,
                                                 const CollectiveContext& context);

  // The plan's ranks exchange something.
  static bool Meets(const BoundSteps& steps) { return !steps.prepared->steps.teams.empty(); }

  // As PlanExecution::Run(). An error of a launched graph names the range of its steps.
  Status Execute(const PlanExecution::Worker& worker);

  // "one graph on its GPU", or why not.
  std::string Describe() const;

 private:
  using Graph = std::shared_ptr<PlanGraph>;
  GpuPlan(BoundSteps& steps, KeptCommunicators& kept) : steps_(steps), kept_(kept) {}

  PlanGraphs& graphs() const { return *kept_.graphs; }
  const plan::ProgramSteps& steps() const { return steps_.prepared->steps; }
  StatusOr<PlanAgreement::Verdict> Agree(const PlanExecution::Worker& worker);
  // Notes where its collectives' buffers lie, as far as the others need to know.
  void LookAtPlaces(PlanAgreement::Ready* ready);
  StatusOr<Graph> Capture(const PlanExecution::Worker& worker);
  // Captures the steps for that place, on all ranks or on none. True: on all.
  StatusOr<bool> CaptureOnAllRanks(const PlanExecution::Worker& worker, size_t place);
  Status Launch(const PlanExecution::Worker& worker, const Graph& graph);
  StepRange AllSteps() const;
  // How long a launch may take: what launches have taken before, and a collective's time.
  std::chrono::milliseconds LimitOf(const PlanGraph& graph,
                                    std::chrono::milliseconds timeout) const;
  // What it reads and writes, for what comes after it.
  GpuWorkTracker::Communication MemoryOf(const PlanGraph& graph,
                                         const CollectiveContext& context) const;

  BoundSteps& steps_;
  KeptCommunicators& kept_;
  std::unique_ptr<PlanAgreement> agreement_;  // null: its ranks exchange nothing
  uint64_t places_ = 0;                       // a hash of where its buffers lay, for the others
  bool asks_each_time_ = false;               // that is not known before
};

}  // namespace lockstep::worker
