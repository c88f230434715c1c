#include "services/worker/execute/collective_operands.h"

#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/registers/value.h"
#include "services/worker/execute/team.h"
#include "services/worker/values/reachable.h"

namespace lockstep::worker {

using collective::Communicator;
using tensor::Tensor;

void CollectiveOperands::DropDestination() {
  if (data_ == nullptr || !data_->RecvMayStillChange() || command_.getMakeDestination()) return;
  const RegisterId id = RegisterId::FromPacked(command_.getDestination());
  const Status killed = context_.session.Kill(id);
  log::Warn("register ", id.Packed(),
            " holds no value any more: a rank that was stopped may still write to it",
            killed.ok() ? "" : "; " + Message(killed));
}

StatusOr<Tensor> CollectiveOperands::TensorIn(uint64_t packed, const char* role) const {
  const RegisterId id = RegisterId::FromPacked(packed);
  StatusOr<const registers::Value*> value = context_.session.registers().Read(id);
  if (!value.ok()) return Annotate(value.status(), std::string("the ") + role);
  const auto* tensor = (*value)->As<Tensor>();
  if (tensor == nullptr) {
    return InvalidArgument("the ", role, " (register ", id, ") holds ",
                           registers::Describe(**value), ", not a tensor");
  }
  LOCKSTEP_RETURN_IF_ERROR(RequireReachable(context_.places, *tensor, std::string("the ") + role));
  return *tensor;
}

StatusOr<Communicator*> CollectiveOperands::DataBy(DeviceType place) {
  if (place == DeviceType::kCpu) return data_ = team_->cpus.get();
  if (team_->gpus == nullptr) {
    std::string who = "this rank";
    if (context_.world.gpus != nullptr) {
      const auto without = context_.world.gpus->WithoutDevice(team_->cpus->members());
      if (without.has_value()) who = "rank " + std::to_string(*without);
    }
    return InvalidArgument("the tensor is on a GPU, and ", who,
                           " of the collective has none: move it by lockstep.to_device(tensor, "
                           "\"cpu\") first");
  }
  by_gpus_ = true;
  facts_.backend = team_->gpus->backend();
  return data_ = team_->gpus.get();
}

StatusOr<Communicator*> CollectiveOperands::DataByAgreement(const Tensor& tensor) {
  // GPUs agree by themselves. Where there are none, no rank can mean one.
  if (team_->gpus != nullptr && tensor.device().type == DeviceType::kCpu) {
    LOCKSTEP_RETURN_IF_ERROR(
        team_->gpus->AgreeOnHostMemory(Name(command_.getKind()), context_.deadline));
  }
  return DataBy(tensor);
}

StatusOr<Tensor> CollectiveOperands::Destination(DType dtype, const Shape& shape,
                                                 DeviceType place) {
  if (command_.getMakeDestination()) {
    tensor::Processor* const processor = context_.places.Of(Device{place});
    if (processor == nullptr) return DataBy(place).status();
    LOCKSTEP_ASSIGN_OR_RETURN(destination_, Tensor::Empty(processor->allocator(), dtype, shape));
    return destination_;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor tensor, TensorIn(command_.getDestination(), "destination"));
  if (tensor.device().type != place) {
    const bool result_is_here = place == DeviceType::kCpu;
    return InvalidArgument("the destination is on ", tensor.device(), ", and the result ",
                           result_is_here ? "in host memory" : "on the GPU");
  }
  if (tensor.dtype() != dtype || tensor.NumElements() != shape.NumElements()) {
    return InvalidArgument("the result is ", dtype, " ", shape, ", the destination holds ",
                           tensor.dtype(), " ", tensor.shape());
  }
  return tensor;
}

StatusOr<std::optional<int64_t>> CollectiveOperands::DestinationElements() const {
  if (command_.getMakeDestination()) return std::optional<int64_t>();
  LOCKSTEP_ASSIGN_OR_RETURN(const Tensor tensor,
                            TensorIn(command_.getDestination(), "destination"));
  return std::optional<int64_t>(tensor.NumElements());
}

Status CollectiveOperands::Keep() {
  if (destination_.IsNull()) return OkStatus();
  // Before it is in the other one: it would count twice.
  if (takes_source_) {
    LOCKSTEP_RETURN_IF_ERROR(context_.session.Kill(RegisterId::FromPacked(command_.getSource())));
  }
  return context_.session.Write(RegisterId::FromPacked(command_.getDestination()),
                                std::move(destination_));
}

}  // namespace lockstep::worker
