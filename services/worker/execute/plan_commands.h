// The commands that reshard, bind and execute: what was lowered for them before, and the second
// lane.
#pragma once

#include <memory>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/bound_plan.h"
#include "services/worker/execute/collective_runner.h"
#include "services/worker/execute/communication_lane.h"
#include "services/worker/execute/gpu_work_tracker.h"
#include "services/worker/execute/plan_execution.h"
#include "services/worker/execute/program_cache.h"
#include "services/worker/execute/reshard_command.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/join/membership.h"
#include "services/worker/options.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Threads: the executing thread.
class PlanCommands {
 public:
  // All is borrowed. Without a recorder nothing is counted.
  PlanCommands(const WorkerOptions& options, CollectiveRunner& collectives, Recorder* recorder,
               RunningCommand& running)
      : options_(options), collectives_(collectives), recorder_(recorder), running_(running) {}

  // The ranks are connected. What was lowered for another world is forgotten.
  void SetWorld(const Membership& membership, const WorldLinks& world);
  // This worker has a GPU. Borrowed.
  void UseGpu(GpuWorkTracker& work) { gpu_ = &work; }

  // The errors are those of CollectiveRunner::Run(), and of what is executed: ExecuteReshard(),
  // ProgramCache::Prepare() and BoundPlan.
  Status Reshard(const std::shared_ptr<SessionState>& session,
                 wire::Command::Reshard::Reader reshard);
  Status Bind(SessionState& session, wire::Command::Bind::Reader bind);
  // Executes a plan of the session, whose calls are made by `call`. `step_by_step`: not as a
  // graph.
  Status Execute(const std::shared_ptr<SessionState>& session, BoundPlan& plan, bool step_by_step,
                 PlanExecution::MakeCall call);

 private:
  // Null: plans are executed in one lane.
  std::unique_ptr<CommunicationLane> MakeLane(const Membership& membership,
                                              const WorldLinks& world);

  const WorkerOptions& options_;
  CollectiveRunner& collectives_;
  Recorder* const recorder_;
  RunningCommand& running_;
  ReshardCache reshards_;
  ProgramCache programs_;
  GpuWorkTracker* gpu_ = nullptr;  // null: this worker has no GPU
  std::unique_ptr<CommunicationLane> lane_;
};

// The plan in that register; the caller holds it while it is executed. kInvalidArgument: the
// register holds something else.
StatusOr<std::shared_ptr<BoundPlan>> FindPlan(const SessionState& session, RegisterId id);

}  // namespace lockstep::worker
