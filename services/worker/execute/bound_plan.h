// A plan that is bound on one rank: its steps, and all that they need.
//
// Bound once, executed often. Binding resolves functions, registers and communicators and takes the
// memory; executing goes through the steps, and decides nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/module/function.h"
#include "runtime/plan/program_steps.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/tensor.h"
#include "schemas/plan.capnp.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/plan_tensors.h"
#include "services/worker/execute/prepared_program.h"

namespace lockstep::worker {

// Threads: the executing thread.
class BoundPlan : public registers::Object {
 public:
  // All ranks bind in one command: those of a collective meet here for the first time. Writes the
  // registers of outputs that lie in the plan's memory, filled with 0. kInvalidArgument: a register
  // holds no function, or no tensor of its layout's tile; kUnimplemented: on a worker with a GPU.
  static StatusOr<std::shared_ptr<BoundPlan>> Bind(const CollectiveContext& context,
                                                   std::shared_ptr<const PreparedProgram> prepared,
                                                   wire::Binding::Reader binding);

  Kind kind() const override { return Kind::kPlan; }
  std::string Describe() const override;
  // Its memory, and what its program says in letters.
  size_t HeldBytes() const override;

  // Different teams of one rank in all plans of a session: each takes shared memory of the cluster.
  static constexpr size_t kMaxTeams = 32;

  // Calls a function on behalf of the command that is executed.
  using CallFunction = absl::FunctionRef<Status(module::Function& function,
                                                absl::Span<const registers::Value> arguments,
                                                registers::Value* result)>;

  // Goes through the steps. An error names the step and the line that it comes from; the registers
  // of outputs hold something in between then. kFailedPrecondition: the session or the world is not
  // the one that it was bound in, or an input's register was freed.
  Status Execute(const CollectiveContext& context, CallFunction call);

 private:
  // A register of an input or output, and the buffer that it stands for.
  struct BoundRegister {
    RegisterId id;
    size_t buffer = 0;
    std::string name;
  };
  struct BoundCall {
    std::shared_ptr<module::Function> function;
    std::vector<registers::Value> arguments;
  };

  explicit BoundPlan(std::shared_ptr<const PreparedProgram> prepared)
      : prepared_(std::move(prepared)), tensors_(prepared_->steps) {}

  Status BindRegisters(const CollectiveContext& context, wire::Binding::Reader binding);
  Status BindCalls(const CollectiveContext& context, wire::Binding::Reader binding);
  Status Connect(const CollectiveContext& context);

  // The tensor in the input's register, which is its tile.
  StatusOr<tensor::Tensor> ReadInput(const CollectiveContext& context,
                                     const BoundRegister& input) const;
  // The register still holds the tensor that its buffer is.
  bool IsInPlace(const CollectiveContext& context, const BoundRegister& bound) const;
  // Inputs whose registers hold another tensor by now are read from there.
  Status FollowInputs(const CollectiveContext& context);
  // That no input which the program writes to shares memory with another: the program would change
  // what it takes for another value.
  Status CheckInputsApart() const;
  // The registers of outputs hold what was computed, whatever was put into them meanwhile.
  Status WriteOutputs(const CollectiveContext& context);
  Status RunCall(const CollectiveContext& context, const plan::CallStep& step, BoundCall& bound,
                 CallFunction call);
  Status RunStep(const CollectiveContext& context, const plan::ProgramStep& step,
                 CallFunction call);
  // The same, for a timeline.
  Status RunRecorded(const CollectiveContext& context, const plan::ProgramStep& step,
                     CallFunction call);

  const std::shared_ptr<const PreparedProgram> prepared_;
  PlanTensors tensors_;
  std::vector<BoundRegister> inputs_;   // that this rank holds
  std::vector<BoundRegister> outputs_;  // the same
  std::vector<BoundCall> calls_;        // in the order of the steps
  std::shared_ptr<KeptCommunicators> kept_ = std::make_shared<KeptCommunicators>();
  // In the order of the steps; they live as long as `kept_` is valid.
  std::vector<collective::Communicator*> communicators_;
  // Of the execution that is under way.
  size_t next_call_ = 0;
  size_t next_communicator_ = 0;
};

}  // namespace lockstep::worker
