// The command that calls a fragment: from registers to what the compiled fragment is given, and
// back.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/activity_page.h"
#include "runtime/fragment/blas.h"
#include "runtime/fragment/loop_threads.h"
#include "runtime/module/function.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/processor.h"
#include "schemas/control.capnp.h"
#include "services/worker/execute/bound_fragment.h"
#include "services/worker/execute/running_command.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/fragment/session_fragments.h"
#include "services/worker/report/recorder.h"

namespace lockstep::worker {

// Fragments of MLIR compute in host memory: what lies on the worker's GPU is copied, and so are
// results. Those of CUDA source compute on the GPU, some time later. Functions of modules get
// tensors where they lie.
//
// Threads: the executing thread.
class FragmentCommands {
 public:
  // Calls a function of a module or a built-in one.
  using CallFunction = absl::FunctionRef<Status(module::Function& function,
                                                absl::Span<const registers::Value> arguments,
                                                registers::Value* result)>;

  // All is borrowed. Without a recorder nothing is recorded for timelines. `threads` compute one
  // fragment, the executing thread among them.
  FragmentCommands(int threads, control::ActivityPage& activity, Recorder* recorder,
                   RunningCommand& running)
      : activity_(activity), recorder_(recorder), running_(running), threads_(threads) {}

  void SetPlace(Rank rank, int world_size) {
    rank_ = rank;
    world_size_ = world_size;
  }

  // kFailedPrecondition: the fragment was not granted, or is being compiled; kInvalidArgument: it
  // is no call of it, none of that number is known, or a register holds something else than the
  // call says; the errors of PreparedCall.
  Status Run(SessionState& session, wire::Command::RunFragment::Reader run,
             const tensor::Processors& places, CallFunction call_function);
  // The call that a step of a plan is. The errors of BoundFragment::Run().
  Status RunInPlan(SessionState& session, BoundFragment& fragment,
                   absl::Span<const registers::Value> arguments, const tensor::Processors& places);
  // What the GPU was given to read and to write by calls since this was asked last.
  GpuMemory TakeGpuMemory() { return std::exchange(gpu_memory_, {}); }

 private:
  using Call = SessionFragments::Call;

  // The call of that number, which is prepared if it is new.
  StatusOr<Call*> Find(SessionState& session, wire::Command::RunFragment::Reader run);
  StatusOr<Call> Prepare(const SessionFragments::Entry& fragment,
                         absl::Span<const std::byte> call) const;
  // What a call has of this worker.
  CallResources Resources(const SessionState& session, const tensor::Processors& places,
                          bool on_device);
  // Of this machine, looked for by the first call; null: there is none.
  fragment::MatmulFunction Blas();

  control::ActivityPage& activity_;
  Recorder* const recorder_;
  RunningCommand& running_;
  Rank rank_ = 0;
  int world_size_ = 1;
  fragment::LoopThreads threads_;
  GpuMemory gpu_memory_;
  std::optional<fragment::MatmulFunction> blas_;  // none: it was not looked for
};

}  // namespace lockstep::worker
