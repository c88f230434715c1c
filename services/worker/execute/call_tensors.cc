#include "services/worker/execute/call_tensors.h"

#include "services/worker/values/reachable.h"

namespace lockstep::worker {

using tensor::Tensor;

StatusOr<const void*> CallTensors::Take(const Tensor& argument, bool is_number) {
  tensor::Processor& place = is_number ? *places_.host : place_;
  const bool is_wanted_on_host = &place == places_.host;
  if (is_wanted_on_host && argument.device().type == DeviceType::kCpu) [[likely]]
    return argument.data();
  LOCKSTEP_RETURN_IF_ERROR(RequireReachable(places_, argument, "the tensor"));
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor there,
                            tensor::MoveTo(place, *places_.Of(argument.device()), argument));
  if (!is_wanted_on_host) gpu_memory_.reads.push_back({there.data(), there.size_bytes()});
  return copies_.emplace_back(std::move(there)).data();
}

StatusOr<Tensor> CallTensors::Make(DType dtype, const Shape& shape) {
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor made, Tensor::Empty(place_.allocator(), dtype, shape));
  NoteWrite(made);
  return made;
}

void CallTensors::NoteWrite(const Tensor& tensor) {
  if (tensor.device().type == DeviceType::kCpu) return;
  gpu_memory_.writes.push_back({tensor.data(), tensor.size_bytes()});
}

}  // namespace lockstep::worker
