#include "services/worker/gpu/gpu_side.h"

#include <utility>

namespace lockstep::worker {
using registers::Value;

StatusOr<std::unique_ptr<GpuSide>> GpuSide::Open(int index, const WorkerOptions& options,
                                                 std::function<std::string()> describe_memory_use) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto gpu, cuda::OpenGpu(index));
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<cuda::StreamPair> streams,
                            cuda::StreamPair::Create(std::move(gpu)));
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto allocator, cuda::DeviceAllocator::Create(
                          streams, {options.device_memory_bytes, std::move(describe_memory_use)}));
  std::shared_ptr<collective::nccl::RegisteredMemory> registered;
  if (options.registered_memory_bytes > 0) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        registered, collective::nccl::RegisteredMemory::Allocate(options.nccl_library,
                                                                 streams->gpu().shared_from_this(),
                                                                 options.registered_memory_bytes));
    allocator->UseFirst(std::make_shared<cuda::Region>(
        streams, cuda::Range{registered->data(), registered->size_bytes()}, registered));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(auto processor, cuda::GpuProcessor::Create(streams, allocator));
  return std::unique_ptr<GpuSide>(new GpuSide(std::move(streams), std::move(allocator),
                                              std::move(processor), std::move(registered)));
}

StatusOr<std::unique_ptr<cuda::GpuProcessor>> GpuSide::NewProcessor() {
  return cuda::GpuProcessor::Create(streams_, allocator_);
}

Status GpuSide::BeforeCall(absl::Span<const Value> arguments) {
  Status status;
  for (const Value& argument : arguments) {
    registers::ForEachIn(argument, [&](const Value& value) {
      if (const auto* tensor = value.As<tensor::Tensor>()) {
        if (tensor->IsNull() || tensor->device().type == DeviceType::kCpu) return;
        status.Update(streams_->BeforeCompute({tensor->data(), tensor->size_bytes()}));
      } else if (value.Is<std::shared_ptr<registers::Object>>()) {
        status.Update(streams_->BeforeComputeOnAnything());
      }
    });
  }
  return status;
}

}  // namespace lockstep::worker
