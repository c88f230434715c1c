// Runs one command of one session: what it does to registers, and what it answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/control/activity_page.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/plain_call.h"
#include "runtime/module/function.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/arena.h"
#include "runtime/tensor/processor.h"
#include "schemas/control.capnp.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/collective_runner.h"
#include "services/worker/execute/controller_reports.h"
#include "services/worker/execute/fragment_commands.h"
#include "services/worker/execute/gpu_work_tracker.h"
#include "services/worker/execute/plan_commands.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/join/membership.h"
#include "services/worker/options.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Threads: SetWorldBroken() is safe from any; all else belongs to the executing thread.
class CommandRunner {
 public:
  // What a command works with. All is borrowed. Without a recorder nothing is counted.
  struct Parts {
    const WorkerOptions& options;
    tensor::Arena& arena;
    const module::FunctionTable& functions;
    BulkServer& bulk;
    ControllerReports& reports;
    control::ActivityPage& activity;
    Recorder* recorder;
    RunningCommand& running;
    // How long a collective that failed for want of another rank waits for the abort that says why
    // that rank did not come.
    std::chrono::milliseconds cause_grace{200};
  };
  explicit CommandRunner(const Parts& parts);

  // This worker has a place among other ranks, which are not connected yet. Borrowed until the next
  // call.
  void SetMembership(const Membership& membership);
  // The ranks are connected. Borrowed until the next SetMembership(); before, no collective is
  // executed.
  void SetWorld(const WorldLinks& world);
  // The world has lost a worker (or has not): until the next one, collectives are refused, of
  // whatever generation.
  void SetWorldBroken(bool broken) { collectives_.SetWorldBroken(broken); }
  // Tensors are made there from now on. Both are borrowed.
  void UseGpu(collective::Accelerator& gpu, GpuWorkTracker& work);

  // Runs a command of the session's client, which the session does not skip.
  Status Run(const std::shared_ptr<SessionState>& session, const wire::Command::Reader& command);
  Status Run(const std::shared_ptr<SessionState>& session, const control::PlainCall& call);
  // Frees registers: also in sessions that have failed.
  void Release(SessionState& session, const wire::Command::Release::Reader& release);

  // A built-in function, one that a module has registered for the whole process, or one of a module
  // that the session has loaded. kNotFound; kInvalidArgument: several of its modules have one.
  StatusOr<std::shared_ptr<module::Function>> FindFunction(const SessionState& session,
                                                           const std::string& name) const;

 private:
  // One of the first two.
  StatusOr<std::shared_ptr<module::Function>> FindFunction(const std::string& name) const;
  // `result`: 0 if it is dropped. `arguments`: those of a command of any kind, or a plain call's.
  template <typename Arguments>
  Status Call(SessionState& session, RegisterId function, RegisterId result,
              const Arguments& arguments);
  Status Sync(SessionState& session);
  Status GetFunction(SessionState& session, wire::Command::GetFunction::Reader get);
  Status LoadModule(SessionState& session, wire::Command::LoadModule::Reader load);
  Status Empty(SessionState& session, wire::Command::Empty::Reader empty);
  Status Collective(const std::shared_ptr<SessionState>& session,
                    wire::Command::Collective::Reader collective);
  Status Execute(const std::shared_ptr<SessionState>& session,
                 wire::Command::Execute::Reader execute);
  Status RunFragment(SessionState& session, wire::Command::RunFragment::Reader run);
  // A step of a plan is one.
  Status RunFragmentOf(SessionState& session, BoundSteps::Call& call);
  // Tells the GPU's tracker, if there is one, of what it has to do for a fragment.
  Status NoteFragment(SessionState& session, const std::string& name, const Status& status);
  Status Fetch(SessionState& session, wire::Command::Fetch::Reader fetch);
  Status Store(SessionState& session, wire::Command::Store::Reader store);
  Status Locate(SessionState& session, wire::Command::Locate::Reader locate);
  Status Lend(SessionState& session, wire::Command::Lend::Reader lend);
  Status FindLayout(SessionState& session, wire::Command::FindLayout::Reader find);

  // Answers the request of the batch that is executed.
  void Reply(const control::Frame& body) {
    // Who has the answer may have the bulk thread write at once what was read until now.
    bulk_.Synchronise();
    reports_.Reply(*running_.batch, control::RemoteError(), body);
  }
  // Calls `function`, where a GPU may have something to do for it.
  Status CallFunction(SessionState& session, module::Function& function,
                      absl::Span<const registers::Value> arguments, registers::Value* result);
  // Where what it puts into the GPU's streams becomes part of a graph.
  Status CaptureFunction(module::Function& function, absl::Span<const registers::Value> arguments,
                         registers::Value* result);
  // Before functions are called for the session.
  void BeginCalls(SessionState& session);
  // Returns when the GPU, if there is one, has done all of the session's commands.
  Status AwaitGpu(const SessionState& session) {
    return gpu_ == nullptr ? OkStatus() : gpu_->Await(session, running_.number);
  }
  // See GpuWorkTracker::StillWanted().
  Status StillWanted(const SessionState& session) const {
    return gpu_ == nullptr ? OkStatus() : gpu_->StillWanted(session, running_.number);
  }

  const WorkerOptions& options_;
  tensor::Arena& arena_;
  const std::unique_ptr<tensor::Processor> host_;
  const module::FunctionTable& functions_;
  BulkServer& bulk_;
  ControllerReports& reports_;
  control::ActivityPage& activity_;
  Recorder* const recorder_;
  RunningCommand& running_;
  const Membership* membership_ = nullptr;
  GpuWorkTracker* gpu_ = nullptr;  // null: this worker has no GPU
  module::CallContext call_context_;
  CollectiveRunner collectives_;
  PlanCommands plans_;
  FragmentCommands fragments_;
  const SessionState* calling_ = nullptr;    // the running call's
  std::vector<registers::Value> arguments_;  // of the running call; kept for its capacity
};

}  // namespace lockstep::worker
