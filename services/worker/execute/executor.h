// Executes batches: takes each command of a batch through the steps that lead to its execution.
#pragma once

#include <memory>

#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/control/activity_page.h"
#include "runtime/control/channel.h"
#include "runtime/module/function.h"
#include "runtime/tensor/arena.h"
#include "schemas/control.capnp.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/command_runner.h"
#include "services/worker/execute/controller_reports.h"
#include "services/worker/execute/fragment_loader.h"
#include "services/worker/execute/gpu_work_tracker.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_directory.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/join/envelope.h"
#include "services/worker/join/membership.h"
#include "services/worker/options.h"
#include "services/worker/output/output_forwarder.h"
#include "services/worker/report/recorder.h"
#include "services/worker/report/register_query_queue.h"

namespace lockstep::worker {

// Puts together what executes: the directory of sessions, the runner of commands, the tracker of
// what a GPU still has to do, and the reports to the controller.
//
// Threads: SetWorldBroken() is safe from any, sessions() as it says itself; all else belongs to the
// executing thread.
class Executor {
 public:
  // Everything is borrowed and outlives the executor. Without a recorder nothing is counted, not
  // even progress.
  Executor(const WorkerOptions& options, const std::shared_ptr<tensor::Arena>& arena,
           const module::FunctionTable& functions, BulkServer& bulk,
           control::ActivityPage& activity, Recorder* recorder);

  SessionDirectory& sessions() { return sessions_; }

  // Before the first batch, and again with every welcome: the old world and what was made of it are
  // given up; the sessions are those of the welcome from now on. `membership` and `controller`,
  // which answers go to, are borrowed until the next call.
  void AdoptWelcome(const Membership& membership, control::ClientChannel& controller);
  // The world has lost a worker (or has not): until the next one, collectives are refused, of
  // whatever generation; those under way are ended by sessions().AbortAll().
  void SetWorldBroken(bool broken) { runner_.SetWorldBroken(broken); }
  // The ranks are connected. Borrowed until the next AdoptWelcome(); before, no collective is
  // executed.
  void SetWorld(const WorldLinks& world) { runner_.SetWorld(world); }
  // What functions print goes through it; null: to this process's log alone.
  void ForwardOutputBy(OutputForwarder* forwarder) { reports_.ForwardOutputBy(forwarder); }

  // Tensors are made there from now on. Once: what waits on the device asks this executor.
  void UseGpu(const std::shared_ptr<collective::Accelerator>& gpu);
  // True while the GPU has something to do: then LookAtGpu() is to be called now and then.
  bool IsGpuBusy() const { return gpu_ != nullptr && gpu_->IsBusy(); }
  // Takes note of what the GPU has done, and of what has gone wrong there.
  void LookAtGpu() {
    if (gpu_ != nullptr) gpu_->Look();
  }
  // Not OK: the GPU does nothing any more for this process, which has to end.
  Status gpu_loss() const { return gpu_ == nullptr ? OkStatus() : gpu_->loss(); }

  void ExecuteBatch(const BatchContext& batch, const control::Frame& body);

  // Where other threads ask what the registers hold; what waits for batches waits for that, too.
  RegisterQueryQueue& register_queries() { return register_queries_; }
  // Answers, if there is a question.
  void AnswerRegisterQueries() {
    if (register_queries_.IsAsked()) [[unlikely]]
      ListRegistersForQuery();
  }

  // What waits for batches waits for its descriptor, too, and has it answer.
  FragmentLoader& fragments() { return fragments_; }

 private:
  void BeginBatch(const BatchContext& batch);
  void EndBatch(size_t body_bytes);
  void EndCommand();

  // The steps of a command, which is one of any kind, or a plain call. What each does not stop goes
  // on to the next.
  template <typename Command>
  Status Execute(const Command& command);
  // Of a session that is not here: opens it, if that is what the command says.
  Status ExecuteWithoutSession(const wire::Command::Reader& command);
  // The controller's own commands, which are executed in failed sessions too.
  Status ExecuteForController(SessionState& session, const wire::Command::Reader& command);
  // The end of a name, or of a loan, also in failed sessions: what is not freed is kept for good.
  Status ExecuteRelease(SessionState& session, const wire::Command::Reader& command);
  // Of a session that has failed: answers with the failure, if an answer is waited for.
  Status Skip(SessionState& session, const wire::Command::Reader& command);
  template <typename Command>
  Status ExecuteForClient(SessionState& session, const Command& command);

  bool IsOfController() const { return running_.batch->first_command == 0; }
  void Reset(SessionState& session, wire::Command::Reset::Reader reset);
  // The running command has failed.
  void Fail(SessionState& session, const Status& status);
  void Record(wire::Command::Which kind) {
    if (recorder_ == nullptr) return;
    recorder_->Begin(kind);
    recorder_->Trace(running_.batch->session, running_.number);
  }
  // Tells how many registers there are.
  void TellHoldings();
  void ListRegistersForQuery();

  const std::shared_ptr<tensor::Arena> arena_;
  BulkServer& bulk_;
  control::ActivityPage& activity_;
  Recorder* const recorder_;
  const Membership* membership_ = nullptr;
  RunningCommand running_{activity_};
  std::shared_ptr<SessionState> session_;  // of the batch that is executed; null: it is not here

  SessionDirectory sessions_;
  ControllerReports reports_;
  CommandRunner runner_;
  FragmentLoader fragments_;
  RegisterQueryQueue register_queries_;
  std::unique_ptr<GpuWorkTracker> gpu_;  // null: this worker has no GPU
};

}  // namespace lockstep::worker
