#include "services/worker/execute/plan_tensors.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace lockstep::worker {

using plan::StepBuffer;
using tensor::Tensor;

PlanTensors::PlanTensors(const plan::ProgramSteps& steps)
    : steps_(steps),
      tensors_(steps.buffers.size()),
      memory_(steps.buffers.size(), nullptr),
      inside_(steps.buffers.size()),
      drops_(steps.steps.size()) {
  for (size_t i = 0; i < steps.buffers.size(); ++i) {
    const StepBuffer& buffer = steps.buffers[i];
    if (buffer.home == StepBuffer::Home::kInside) {
      inside_[static_cast<size_t>(buffer.inside)].push_back(i);
    }
    const auto last = static_cast<size_t>(buffer.last_step);
    // An output is needed beyond the last step.
    if (buffer.home == StepBuffer::Home::kReturned && last < drops_.size()) {
      drops_[last].push_back(i);
    }
  }
}

Status PlanTensors::TakeArena(tensor::Processor& place, const registers::RegisterFile& registers) {
  // What is empty has a place, too.
  const int64_t bytes = std::max<int64_t>(steps_.arena_bytes, 1);
  LOCKSTEP_RETURN_IF_ERROR(registers.CheckRoom(static_cast<size_t>(bytes)));
  LOCKSTEP_ASSIGN_OR_RETURN(auto memory, place.allocator().Allocate(static_cast<size_t>(bytes)));
  auto counted =
      std::make_shared<registers::LastingStorage>(std::move(memory), registers.lasting_bytes());
  LOCKSTEP_ASSIGN_OR_RETURN(
      arena_, Tensor::FromStorage(std::move(counted), 0, DType::kUInt8, Shape({bytes})));
  for (size_t i = 0; i < steps_.buffers.size(); ++i) {
    const StepBuffer& buffer = steps_.buffers[i];
    if (buffer.home != StepBuffer::Home::kArena) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(
        Tensor view, Tensor::FromStorage(arena_.storage(), static_cast<size_t>(buffer.arena_offset),
                                         buffer.dtype, buffer.extents));
    Place(i, std::move(view));
  }
  return OkStatus();
}

void PlanTensors::Place(size_t buffer, Tensor tensor) {
  memory_[buffer] = tensor.data_as<std::byte>();
  for (const size_t part : inside_[buffer]) {
    const StepBuffer& one = steps_.buffers[part];
    const auto* const begin = static_cast<const std::byte*>(tensor.storage()->data());
    const size_t offset = static_cast<size_t>(memory_[buffer] - begin) +
                          static_cast<size_t>(one.offset) * SizeOf(one.dtype);
    // It reaches no further than the tensor, which is the tile that the part was cut from.
    tensors_[part] = *Tensor::FromStorage(tensor.storage(), offset, one.dtype, one.extents);
    memory_[part] = tensors_[part].data_as<std::byte>();
  }
  tensors_[buffer] = std::move(tensor);
}

void PlanTensors::LetGo(size_t buffer) {
  for (const size_t part : inside_[buffer]) LetGo(part);
  memory_[buffer] = nullptr;
  tensors_[buffer] = Tensor();
}

Status PlanTensors::PlaceReturned(size_t buffer, const registers::Value& returned,
                                  const std::string& function,
                                  absl::Span<const registers::Value> arguments, Device place,
                                  const registers::RegisterFile& registers) {
  const auto* tensor = returned.As<Tensor>();
  const StepBuffer& wanted = steps_.buffers[buffer];
  if (tensor == nullptr || tensor->IsNull() || tensor->dtype() != wanted.dtype ||
      tensor->shape() != wanted.extents) {
    return InvalidArgument(function, " is to return ", wanted.dtype, wanted.extents,
                           ", this rank's tile, and returned ",
                           tensor == nullptr || tensor->IsNull()
                               ? registers::Describe(returned)
                               : std::string(Name(tensor->dtype())) + tensor->shape().ToString());
  }
  if (tensor->device().type != place.type) {
    return InvalidArgument(function, " returned a tensor on ", tensor->device(),
                           "; this plan works on ", place, ", where its inputs lie");
  }
  // The plan gives the argument's memory to others when the argument is not needed any more.
  for (const registers::Value& argument : arguments) {
    const auto* given = argument.As<Tensor>();
    if (given == nullptr || given->storage() != tensor->storage()) continue;
    return InvalidArgument(function,
                           " returned memory of its argument; let it write to an argument "
                           "(plan::Write, plan::Update) instead");
  }
  LOCKSTEP_RETURN_IF_ERROR(registers.CheckRoom(returned_bytes_ + tensor->size_bytes()));
  if (tensors_[buffer].IsNull()) returned_bytes_ += tensor->size_bytes();
  Place(buffer, *tensor);
  return OkStatus();
}

void PlanTensors::DropAll() {
  for (const std::vector<size_t>& buffers : drops_) Drop(buffers);
  next_drop_ = 0;
}

void PlanTensors::Drop(const std::vector<size_t>& buffers) {
  for (const size_t buffer : buffers) {
    if (tensors_[buffer].IsNull()) continue;
    returned_bytes_ -= tensors_[buffer].size_bytes();
    LetGo(buffer);
  }
}

}  // namespace lockstep::worker
