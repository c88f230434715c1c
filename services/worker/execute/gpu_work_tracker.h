// All that a worker's GPU still has to do, and what follows from it for sessions: which command has
// put it there, which waits for it, which is blamed for its errors, and which registers hold no
// value once it is cut off.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/control/activity_page.h"
#include "runtime/module/function.h"
#include "runtime/registers/value.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/controller_reports.h"
#include "services/worker/execute/plan_graphs.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_directory.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/gpu/in_flight.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Threads: the executing thread.
class GpuWorkTracker {
 public:
  // More commands than this are not put into the streams ahead of what the GPU does. Each is up to
  // a dozen kernels, copies and events, and a stream that has about a thousand of them keeps its
  // caller waiting in the driver, where no abort reaches it.
  static constexpr size_t kMostInFlight = 64;
  // By so much earlier than this rank another one may have been told to abort.
  static constexpr std::chrono::seconds kAbortsApart{1};

  // All but `gpu` are borrowed; `recorder` may be null: then nothing is counted. `running` is what
  // the executing thread executes. `while_waiting` is called now and then while that thread waits
  // for the GPU.
  GpuWorkTracker(std::shared_ptr<collective::Accelerator> gpu, SessionDirectory& sessions,
                 ControllerReports& reports, control::ActivityPage& activity, Recorder* recorder,
                 const RunningCommand& running, std::function<void()> while_waiting);
  ~GpuWorkTracker();
  GpuWorkTracker(const GpuWorkTracker&) = delete;
  GpuWorkTracker& operator=(const GpuWorkTracker&) = delete;

  // A batch of `session` begins: what waits for the GPU from now on ends when that session fails at
  // the running command, or at an earlier one.
  void BeginBatch(const std::shared_ptr<SessionState>& session) {
    executing_for_ = session;
    Look();
  }

  // A function of a module is called with these: it may use the memory that they have, and any that
  // their objects know of.
  Status BeforeCall(absl::Span<const registers::Value> arguments);
  // Functions of modules may have made another GPU this thread's.
  Status AfterCall() { return gpu_->Bind(); }

  // What a command that was just executed may have put into the compute stream.
  struct Computation {
    uint64_t command = 0;
    std::string_view what;
    // It may have used the GPU by means that are not known here.
    bool may_have_used = false;
    // It has called this with these arguments; null: it has written nothing that anything else has
    // yet.
    const module::Function* function = nullptr;
    absl::Span<const registers::Value> arguments = {};
    const registers::Value* result = nullptr;
    StepRange steps = {};  // of a plan: those that it is
    // What else it reads, and writes.
    TensorMemory reads = {};
    TensorMemory writes = {};
  };
  // Notes it, if there is anything. Errors: those of the GPU; kAborted: the session's work was
  // given up meanwhile, and what the command has written is no value.
  Status Note(SessionState& session, const Computation& computation);
  // What a collective may have put into the communication stream.
  struct Communication {
    uint64_t command = 0;
    wire::CollectiveKind kind = wire::CollectiveKind::ALL_REDUCE;
    CollectiveFacts facts;
    std::shared_ptr<collective::DeviceConnection> connection;
    // How long it may take from when it is the oldest.
    std::chrono::milliseconds timeout{0};
    StepRange steps = {};  // of a plan: those that it is
    TensorMemory reads = {};
    TensorMemory writes = {};
    std::vector<tensor::Tensor> held = {};

    // The tensors in the value are read by it, or written to. They are held, where their memory
    // would go back to the module that made them before the GPU is through with it.
    void Read(const registers::Value& value) { Use(value, &reads); }
    void Write(const registers::Value& value) { Use(value, &writes); }

   private:
    void Use(const registers::Value& value, TensorMemory* memory);
  };
  // Notes it, if there is anything.
  void NoteCollective(const std::shared_ptr<SessionState>& session, Communication communication);
  // The same of a command, whose tensors are in registers.
  void NoteCollective(const std::shared_ptr<SessionState>& session, uint64_t command,
                      wire::Command::Collective::Reader collective,
                      const CollectiveOutcome& outcome, std::chrono::milliseconds timeout);
  // What is executed between the two is not done, but becomes a graph; none of it is noted, and no
  // event is asked. An error of the end: nothing was captured.
  Status BeginCapture();
  StatusOr<std::unique_ptr<collective::DeviceGraph>> EndCapture();
  bool is_capturing() const { return is_capturing_; }
  // The stream that functions are to use now: another one while something is captured.
  void* compute_stream() const { return gpu_->compute_stream(); }
  // Launches it among these ranks, and notes it as one piece of work. `communication` says what
  // steps it has, and which memory they read and write.
  struct Ranks {
    Rank first = 0;
    Rank last = 0;
  };
  Status Launch(const std::shared_ptr<SessionState>& session,
                const std::shared_ptr<PlanGraph>& graph, Ranks ranks, Communication communication);
  // Whether anything was noted since this was asked last.
  bool TakeNoted() { return std::exchange(was_noted_, false); }

  // Takes note of what the GPU has done, and of what has gone wrong there.
  void Look();
  bool IsBusy() const { return !in_flight_.empty(); }

  // OK unless the session skips `command` by now: what the GPU has waited for may have been cut
  // off, and what it has given is right only if not.
  Status StillWanted(const SessionState& session, uint64_t command) const;
  // Returns when the GPU has done all of the session's commands. kAborted once the session skips
  // `command`, which waits.
  Status Await(const SessionState& session, uint64_t command) { return Await(session, command, 0); }
  // Returns when the GPU has room for further commands.
  Status MakeRoom(const SessionState& session, uint64_t command) {
    if (in_flight_.size() < kMostInFlight) return OkStatus();
    return Await(session, command, kMostInFlight / 2);
  }

  // The session's collectives of that generation (none: of any) from a command on are cut off:
  // registers that hold what they were to write, or what was made of it, hold no value any more.
  void CutOffCollectives(SessionState& session, std::optional<Generation> generation,
                         uint64_t from_command) {
    Spoil(session, {generation, from_command, session.failed_at() - kAbortsApart});
  }
  // The ranks are not connected any more: what their GPUs do together is cut off.
  void GiveUp();

  // Not OK: the GPU does nothing any more for this process, which has to end.
  const Status& loss() const { return loss_; }
  // Looks whether the GPU is lost by now. True if it is, and the command that may have caused it
  // has been blamed.
  bool BlameLoss();

 private:
  // What was put in since the last one; `work` says what else there is to say of it.
  void NoteCommunication(const std::shared_ptr<SessionState>& session, GpuWork work,
                         Communication communication);
  Status Await(const SessionState& session, uint64_t command, size_t most);
  // An error of the GPU: the oldest command's session fails.
  void FailOldest(const Status& status);
  void Spoil(SessionState& session, const CutOff& cut_off);
  // Registers that hold any of this memory hold no value any more.
  void DropValues(SessionState& session, const TensorMemory& memory);
  // So many commands that went on on the GPU are completed.
  void CountCompleted(int commands);
  // What the GPU still has to do is not followed any more.
  void Forget();

  const std::shared_ptr<collective::Accelerator> gpu_;
  InFlight in_flight_;
  SessionDirectory& sessions_;
  ControllerReports& reports_;
  control::ActivityPage& activity_;
  Recorder* const recorder_;
  const RunningCommand& running_;
  const std::function<void()> while_waiting_;

  std::weak_ptr<SessionState> executing_for_;  // the last batch's; it may be closed meanwhile
  bool was_noted_ = false;
  bool is_capturing_ = false;
  Status loss_;
};

}  // namespace lockstep::worker
