// One execution of a bound plan on one rank: goes through its steps, and decides nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/module/function.h"
#include "runtime/plan/program.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"
#include "services/worker/execute/bound_fragment.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/communication_lane.h"
#include "services/worker/execute/communicator_cache.h"
#include "services/worker/execute/gpu_work_tracker.h"
#include "services/worker/execute/plan_agreement.h"
#include "services/worker/execute/plan_tensors.h"
#include "services/worker/execute/prepared_program.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/execute/step_names.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// A plan's steps, and what binding has found for them.
struct BoundSteps {
  explicit BoundSteps(std::shared_ptr<const PreparedProgram> program)
      : prepared(std::move(program)),
        names(std::make_shared<const PlanStepNames>(prepared)),
        tensors(prepared->steps) {}

  struct Call {
    std::shared_ptr<module::Function> function;  // null: it is a fragment
    std::vector<registers::Value> arguments;
    std::shared_ptr<BoundFragment> fragment = nullptr;

    const std::string& name() const {
      return fragment != nullptr ? fragment->name() : function->name();
    }
  };

  bool is_on_gpu() const { return place->device().type != DeviceType::kCpu; }
  DType DTypeOf(int buffer) const {
    return prepared->steps.buffers[static_cast<size_t>(buffer)].dtype;
  }
  // The communicators of each collective's team, which are borrowed.
  void UseTeams(const std::map<plan::Team, Communicators>& by_ranks);
  // "train.cc:12, step 3 of the plan (copy)"; empty: nobody wrote it, it is all of a command.
  std::string DescribeStep(size_t number) const { return names->NameOf(number, number); }

  const std::shared_ptr<const PreparedProgram> prepared;
  const std::shared_ptr<const PlanStepNames> names;
  PlanTensors tensors;
  tensor::Processor* place = nullptr;  // who works where the tensors lie; borrowed
  // Both in the order of the steps.
  std::vector<Call> calls;
  std::vector<const Communicators*> teams;  // of collectives; borrowed
  // What the ranks know of each collective on their GPUs; empty: they agree on all of it each time.
  std::vector<AgreedCollective> agreed;
  // Of the steps of the communication lane, if the lanes overlap: when each began and ended.
  std::vector<std::pair<int64_t, int64_t>> exchange_times;
};

// Who works where the program's tensors are to lie: on the GPUs of its ranks, if all of them have
// one, else in host memory. Each rank comes to the same.
tensor::Processor& PlaceOf(const CollectiveContext& context, const plan::Program& program);

// Threads: the executing thread.
class PlanExecution {
 public:
  // Calls a function, or a fragment, on behalf of the command that is executed.
  using MakeCall = absl::FunctionRef<Status(BoundSteps::Call& call, registers::Value* result)>;
  // What an execution takes from its worker. Borrowed, but for the session.
  struct Worker {
    const CollectiveContext& context;
    MakeCall call;
    const std::shared_ptr<SessionState>& session;
    GpuWorkTracker* gpu;      // null: it has none
    Recorder* recorder;       // null: nothing is counted
    CommunicationLane* lane;  // null: plans are executed in one lane
    bool captures = false;    // plans on GPUs may be captured, and launched as one graph
  };
  // How it is done: or what a GPU is given becomes part of a graph
  // (GpuWorkTracker::BeginCapture()), of which nothing is told.
  enum class Mode { kExecute, kCapture };

  // Both are borrowed.
  PlanExecution(BoundSteps& plan, const Worker& worker, Mode mode = Mode::kExecute)
      : plan_(plan), worker_(worker), mode_(mode) {}

  // An error names the step, and the line that it comes from. What the steps have put on a GPU goes
  // on.
  Status Run();

  // The pieces of it. Each call, and each collective, is run once, in the order of the steps.
  Status RunNumber(size_t number);
  // This rank is at that step.
  void TellOfStep(size_t number) const;
  // This rank waits for others in that collective.
  void TellOfWait(const plan::CollectiveStep& step) const;
  // That collective was done in `took`.
  void CountCollective(const plan::CollectiveStep& step, const Communicators& team,
                       std::chrono::nanoseconds took) const;
  // For a timeline, if one is recorded: when the step began and ended (trace::Now()).
  void RecordStep(size_t number, int64_t began, int64_t ended) const;

 private:
  Status RunStep(const plan::ProgramStep& step);
  Status RunCall(const plan::CallStep& step, BoundSteps::Call& bound);
  Status RunCollective(const plan::CollectiveStep& step, size_t number);
  Status RunOnGpus(const plan::CollectiveStep& step, size_t number);
  // A collective has gone to the GPU.
  void NoteCollective(const plan::CollectiveStep& step, const Communicators& team);
  // The GPU, if it is one, has been given a copy or a fill.
  Status NoteWork(const char* what, int reads, int writes);

  BoundSteps& plan_;
  const Worker& worker_;
  const Mode mode_;
  const CollectiveContext& context_ = worker_.context;
  size_t step_ = 0;  // that is executed
  size_t next_call_ = 0;
  size_t next_collective_ = 0;
};

}  // namespace lockstep::worker
