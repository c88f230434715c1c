// Executes batches: the worker's side of every command.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/communicator.h"
#include "runtime/control/activity_page.h"
#include "runtime/control/channel.h"
#include "runtime/control/frame.h"
#include "runtime/module/function.h"
#include "runtime/module/function_table.h"
#include "runtime/registers/register_file.h"
#include "runtime/tensor/arena.h"
#include "runtime/tensor/processor.h"
#include "schemas/control.capnp.h"
#include "services/worker/bulk/bulk_server.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/lent_memory_reclaimer.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/gpu/gpu_side.h"
#include "services/worker/join/envelope.h"
#include "services/worker/join/membership.h"
#include "services/worker/options.h"
#include "services/worker/output/output_forwarder.h"
#include "services/worker/report/recorder.h"
#include "services/worker/report/register_query_queue.h"

namespace lockstep::worker {

// Threads: all but Abort() and AbortAll(), which are safe from any, belong to the executing thread.
class Executor {
 public:
  // Everything is borrowed and outlives the executor. Without a recorder nothing is counted, not
  // even progress.
  Executor(const WorkerOptions& options, const std::shared_ptr<tensor::Arena>& arena,
           const module::FunctionTable& functions, BulkServer& bulk,
           control::ActivityPage& activity, Recorder* recorder);
  ~Executor();

  // The aborts that come from now on are this controller's: those of sessions that an earlier one
  // was yet to open are forgotten. Before its first abort can come.
  void SetController(const Membership& membership);
  // Before the first batch, and again with every welcome: the old world and what was made of it are
  // given up; the sessions are those of the welcome from now on. `place` and `controller`, which
  // answers go to, are borrowed until the next call.
  void AdoptWelcome(const Membership& membership, control::ClientChannel& controller);
  // Safe from any thread. The world has lost somebody (or has not): until the next one, collectives
  // are refused, of whatever generation; those under way are AbortAll()'s.
  void SetWorldBroken(bool broken) { world_broken_ = broken; }
  // The ranks are connected. Borrowed until the next AdoptWelcome(); before, no collective is
  // executed.
  void SetWorld(const WorldLinks& world) { world_ = world; }

  // Where tensors are made from now on; borrowed. What waits for it looks at all that it does, and
  // ends when the session fails whose batch is executed.
  void UseGpu(GpuSide* gpu);
  // True while the GPU has something to do: somebody has to look now and then.
  bool IsGpuBusy() const;
  // Takes note of what the GPU has done, and of what has gone wrong there.
  void LookAtGpu();
  // Not OK: the GPU does nothing any more for this process, which has to end.
  const Status& gpu_loss() const { return gpu_loss_; }
  // How many are open. Threads: any.
  size_t CountSessions();
  // Which sessions hold how much: for who gets no memory.
  std::string DescribeMemoryUse();

  // What functions print goes through it; null: nobody but this process's log sees it.
  void ForwardOutputBy(OutputForwarder* forwarder) { forwarder_ = forwarder; }

  // By so much earlier than this rank another one may have been told to abort.
  static constexpr std::chrono::seconds kAbortsApart{1};

  // What another controller must know of each session.
  std::vector<control::SessionRecord> Inventory();

  void ExecuteBatch(const BatchContext& batch, const control::Frame& body);

  // Ends the session's work of that generation from a command on, for the cause that another rank
  // gave.
  void Abort(SessionId session, const AbortOrder& abort);
  void AbortAll(const control::RemoteError& cause);

  // Where others ask what the registers hold; whoever waits for batches waits for that, too.
  RegisterQueryQueue& register_queries() { return register_queries_; }
  // Answers, if somebody asks.
  void AnswerRegisterQueries() {
    if (register_queries_.IsAsked()) [[unlikely]]
      TellRegisters();
  }

  // What is kept for clients that are lost; whoever waits for batches waits for their ends, too.
  LentMemoryReclaimer& lent_memory() { return lent_memory_; }

 private:
  // What an error is attributed to.
  struct Running {
    const BatchContext* batch = nullptr;
    uint64_t command = 0;
    std::string function;
  };

  // Names what is executed now, for errors and for whoever asks what this worker is doing.
  void Doing(const char* what);
  // Around code of the session's modules. EndForwarding() before anything is said of the session,
  // so that its client reads first what was printed before.
  void BeginForwarding(const SessionState& session) {
    if (forwarder_ == nullptr || is_forwarding_ || !session.forward_output()) return;
    is_forwarding_ = true;
    forwarder_->Begin(session.id(), *controller_);
  }
  void EndForwarding() {
    if (std::exchange(is_forwarding_, false)) forwarder_->End();
  }
  Status ExecuteCommand(const std::shared_ptr<SessionState>& session,
                        wire::Command::Reader command);
  // The controller's own commands, which are executed in failed sessions too.
  Status ExecuteForController(SessionState& session, wire::Command::Reader command);

  void Reset(SessionState& session, wire::Command::Reset::Reader reset);
  Status Call(SessionState& session, wire::Command::Call::Reader call);
  Status GetFunction(SessionState& session, wire::Command::GetFunction::Reader get);
  Status LoadModule(SessionState& session, wire::Command::LoadModule::Reader load);
  Status Empty(SessionState& session, wire::Command::Empty::Reader empty);
  Status Collective(const std::shared_ptr<SessionState>& session,
                    wire::Command::Collective::Reader collective);
  Status Fetch(SessionState& session, wire::Command::Fetch::Reader fetch);
  Status Store(SessionState& session, wire::Command::Store::Reader store);
  Status Locate(SessionState& session, wire::Command::Locate::Reader locate);
  void Release(SessionState& session, wire::Command::Release::Reader release);
  // The register, by its packed id, does not hold any more what was located.
  void WithdrawTicket(SessionState& session, uint64_t packed);

  void Record(wire::Command::Reader command) {
    if (recorder_ == nullptr) return;
    recorder_->Begin(command.which());
    recorder_->Trace(running_.batch->session, running_.command);
  }
  // Tells whoever looks how many registers there are.
  void TellHoldings();

  // gpu_commands.cc
  // The command that is executed has put work into the GPU's streams.
  // By `function`, on arguments_, with that result; null: it has written nothing that anybody has
  // yet. Errors: those of the GPU; kAborted: the session's work was given up meanwhile, and what
  // the command has written is no value.
  Status NoteGpuWork(SessionState& session, const std::string& what, bool may_have_used,
                     const module::Function* function = nullptr,
                     const registers::Value* result = nullptr);
  void NoteGpuCollective(const std::shared_ptr<SessionState>& session,
                         wire::Command::Collective::Reader collective,
                         const CollectiveOutcome& outcome);
  // Registers that hold what those collectives were to write, or what was made of it, hold no value
  // any more.
  void Spoil(SessionState& session, const CutOff& cut_off);
  // Registers that hold any of this memory hold no value any more.
  void DropValues(SessionState& session, const TensorMemory& memory);
  // Returns when the GPU has done all of the session's commands, or has at most `most` to do.
  Status AwaitGpu(const SessionState& session, size_t most = 0);
  Status MakeRoomOnGpu(const SessionState& session);
  void FailOnGpu(const Status& status);
  // What the GPU has waited for may have been cut off since: OK if not, so that what it has given
  // is right.
  Status StillWanted(const SessionState& session) const;
  // The ranks are not connected any more: what their GPUs do together is cut off.
  void GiveUpGpuWork();
  // So many commands that went on on the GPU are completed.
  void CountCompleted(int commands);
  // What the GPU still has to do is nobody's business any more.
  void ForgetGpuWork();

  // Answers what they hold.
  void TellRegisters();
  // The ranks of this world can be split into the session's groups.
  bool HasGroupsHere(const control::SessionRecord& record) const;
  void OpenSession(const control::SessionRecord& record);
  void CloseSession(SessionState& session, bool client_lost);
  // Another client has it now, or the same one shows another key.
  void Adopt(SessionState& session, const control::SessionRecord& record);
  // The client may not write to what it has located any more; if it was lost, it may all the same.
  void TakeFromClient(SessionState& session, bool client_lost);

  std::shared_ptr<SessionState> FindSession(SessionId id);
  void FailSession(SessionState& session, const Status& status);
  void Reply(const control::RemoteError& error, const control::Frame& body);
  void ReportConsumed(SessionState& session, size_t body_bytes);
  void Send(const control::Message& message);

  const WorkerOptions& options_;
  const std::shared_ptr<tensor::Arena> arena_;
  const std::unique_ptr<tensor::Processor> host_;
  const module::FunctionTable& functions_;
  BulkServer& bulk_;
  control::ActivityPage& activity_;
  Recorder* const recorder_;
  OutputForwarder* forwarder_ = nullptr;
  bool is_forwarding_ = false;

  const Membership* membership_ = nullptr;
  control::ClientChannel* controller_ = nullptr;
  WorldLinks world_;
  GpuSide* gpu_ = nullptr;
  bool is_on_gpu_ = false;                     // what is executed goes on there
  std::weak_ptr<SessionState> executing_for_;  // the last batch's; it may be closed meanwhile
  Status gpu_loss_;
  std::atomic<bool> world_broken_{false};

  registers::SessionRegisters registers_;
  module::CallContext call_context_;
  std::vector<registers::Value> arguments_;  // of the running call; kept for its capacity
  Running running_;

  LentMemoryReclaimer lent_memory_;
  RegisterQueryQueue register_queries_;

  std::mutex sessions_mutex_;  // guards the map; a session guards itself
  std::map<SessionId, std::shared_ptr<SessionState>> sessions_;
  SessionId last_session_;  // the last that was opened; their ids grow
  // Aborts of sessions that this worker has yet to open: they travel on another socket, and a
  // worker that is busy is overtaken by them.
  struct EarlyAbort {
    SessionId session;
    AbortOrder abort;
  };
  std::vector<EarlyAbort> early_aborts_;
};

}  // namespace lockstep::worker
