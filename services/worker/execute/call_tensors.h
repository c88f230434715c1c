// The tensors of one call of a fragment, where it computes: in host memory, or on the worker's GPU.
#pragma once

#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/tensor.h"
#include "services/worker/gpu/in_flight.h"

namespace lockstep::worker {

// Of tensors that lie on the worker's GPU: what it was given to read, and to write.
struct GpuMemory {
  TensorMemory reads;
  TensorMemory writes;
};

// Threads: the executing thread.
class CallTensors {
 public:
  // `places` is borrowed.
  CallTensors(const tensor::Processors& places, bool on_device)
      : places_(places), place_(on_device ? *places.gpu : *places.host) {}

  // Where the fragment computes.
  tensor::Processor& place() const { return place_; }

  // Where the call reads an argument: the tensor itself, where it lies as it is wanted, which has
  // to stay until the call is over; else a copy, which is held here. Numbers lie in host memory,
  // wherever the fragment computes. kInvalidArgument: the worker does not reach the tensor.
  StatusOr<const void*> Take(const tensor::Tensor& argument, bool is_number);
  // A new tensor for a result.
  StatusOr<tensor::Tensor> Make(DType dtype, const Shape& shape);
  // The call, or a copy of a result, writes to this tensor.
  void NoteWrite(const tensor::Tensor& tensor);

  GpuMemory TakeGpuMemory() { return std::exchange(gpu_memory_, {}); }

 private:
  const tensor::Processors& places_;
  tensor::Processor& place_;
  std::vector<tensor::Tensor> copies_;  // or what lies on the GPU as it is wanted
  GpuMemory gpu_memory_;
};

}  // namespace lockstep::worker
