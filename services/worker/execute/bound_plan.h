// A plan that is bound on one rank: its steps, and all that they need.
//
// Bound once, executed often. Binding resolves functions, registers and communicators and takes the
// memory; executing goes through the steps, and decides nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/fragment/fragment.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/registers/register_file.h"
#include "runtime/registers/value.h"
#include "runtime/tensor/tensor.h"
#include "schemas/plan.capnp.h"
#include "services/worker/execute/bound_fragment.h"
#include "services/worker/execute/collective_command.h"
#include "services/worker/execute/gpu_plan.h"
#include "services/worker/execute/input_holders.h"
#include "services/worker/execute/plan_execution.h"
#include "services/worker/execute/prepared_program.h"

namespace lockstep::worker {

// Threads: the executing thread.
class BoundPlan : public registers::Object, public InputHolder {
 public:
  // All ranks bind in one command: those of a collective meet here for the first time. Writes the
  // registers of outputs that lie in the plan's memory, filled with 0. Its tensors lie on the
  // ranks' GPUs, where all of them have one, else in host memory. kInvalidArgument: a register
  // holds no function, or no tensor of its layout's tile there. After an error those registers
  // hold nothing.
  static StatusOr<std::shared_ptr<BoundPlan>> Bind(const CollectiveContext& context,
                                                   std::shared_ptr<const PreparedProgram> prepared,
                                                   wire::Binding::Reader binding);

  // Returns when all ranks of the program have come so far; an error: one has not, and none goes
  // on.
  Status AwaitOthers(const CollectiveContext& context) const;
  // It is not to be executed: the registers of outputs hold nothing any more.
  void Undo(const CollectiveContext& context);

  Kind kind() const override { return Kind::kPlan; }
  std::string Describe() const override;
  // Its memory, and what was prepared for it, also where other plans share that.
  size_t HeldBytes() const override;
  size_t BytesApart() const override { return steps_.tensors.arena_bytes(); }
  // It holds more, or less, since this was asked last: graphs come and go.
  bool TakeHasChangedSize() {
    const size_t now = kept_->graphs == nullptr ? 0 : kept_->graphs->held_bytes();
    return std::exchange(bytes_of_graphs_, now) != now;
  }

  // The tensor in an input's register may be gone: it is looked up anew by the next execution.
  void LetGo(uint32_t register_index) override;

  // Different teams of one rank in all plans of a session: each takes shared memory of the cluster.
  static constexpr size_t kMaxTeams = 32;

  // Goes through the steps; what they put on a GPU is done some time later. After an error the
  // registers of outputs hold something in between. kFailedPrecondition: the session or the world
  // is not the one that it was bound in, or an input's register was freed.
  Status Execute(const PlanExecution::Worker& worker);

 private:
  // A register of an input or output, and the buffer that it stands for.
  struct BoundRegister {
    RegisterId id;
    size_t buffer = 0;
    std::string name;
    registers::LayoutPtr layout;  // by which its tiles lie
  };

  explicit BoundPlan(std::shared_ptr<const PreparedProgram> prepared)
      : steps_(std::move(prepared)) {}

  const PreparedProgram& prepared() const { return *steps_.prepared; }
  const plan::Program& program() const { return *prepared().lowered.program; }
  Status BindAll(const CollectiveContext& context, wire::Binding::Reader binding);
  Status BindRegisters(const CollectiveContext& context, wire::Binding::Reader binding);
  // That of the key, for the program's operation of that number.
  StatusOr<std::shared_ptr<BoundFragment>> FindFragment(const CollectiveContext& context, size_t op,
                                                        const fragment::ObjectKey& key) const;
  Status BindCalls(const CollectiveContext& context, wire::Binding::Reader binding);
  Status Connect(const CollectiveContext& context);
  // Those that another plan keeps, or new ones; `*own` counts the teams that this rank is in.
  StatusOr<Communicators> CommunicatorsOf(const CollectiveContext& context, const plan::Team& team,
                                          size_t* own);

  // What stands for the program's value.
  BoundRegister Stands(plan::ValueId id, RegisterId in, size_t buffer) const;
  // The tensor in the input's register, which is its tile.
  StatusOr<tensor::Tensor> ReadInput(const CollectiveContext& context,
                                     const BoundRegister& input) const;
  // The register still holds the tensor that its buffer is.
  bool IsInPlace(const CollectiveContext& context, const BoundRegister& bound) const;
  // Inputs whose registers hold another tensor by now are read from there.
  Status FollowInputs(const CollectiveContext& context);
  // Calls are given the tensors that inputs are now.
  void PassInputs();
  // That no input which the program writes to shares memory with another, and none lies in the
  // plan's own: the program would change what it takes for another value.
  Status CheckInputsApart() const;
  // The registers of outputs hold what was computed, whatever was put into them meanwhile.
  Status WriteOutputs(const CollectiveContext& context);
  // On GPUs: how it is executed there.
  Status PrepareForGpu(const CollectiveContext& context, wire::Binding::Reader binding);
  // Goes through the steps, or launches them.
  Status Run(const PlanExecution::Worker& worker);
  // What there is to be for lanes that overlap.
  void PrepareLanes();
  // After a failure: what a peer may still write to does not become a value again by a reset.
  void DropOutputs(const CollectiveContext& context);

  BoundSteps steps_;
  std::vector<BoundRegister> inputs_;   // that this rank holds
  std::vector<BoundRegister> outputs_;  // the same
  // Those of steps_.teams, for as long as they are valid.
  std::shared_ptr<KeptCommunicators> kept_ = std::make_shared<KeptCommunicators>();
  std::unique_ptr<GpuPlan> on_gpu_;  // null: in host memory
  size_t bytes_of_graphs_ = 0;       // when TakeHasChangedSize() was asked last
};

}  // namespace lockstep::worker
