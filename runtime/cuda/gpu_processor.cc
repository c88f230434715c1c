#include "runtime/cuda/gpu_processor.h"

#include <utility>

namespace lockstep::cuda {

namespace {

using tensor::Tensor;

// With the module that it lies in.
class LoadedKernel final : public collective::DeviceKernel {
 public:
  LoadedKernel(std::unique_ptr<KernelModule> module, Kernel kernel)
      : module_(std::move(module)), kernel_(kernel) {}
  Kernel kernel() const { return kernel_; }

 private:
  const std::unique_ptr<KernelModule> module_;
  const Kernel kernel_;
};

}  // namespace

StatusOr<std::unique_ptr<collective::DeviceKernel>> LoadKernel(Gpu& gpu,
                                                               absl::Span<const std::byte> image,
                                                               const std::string& name) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto module, gpu.LoadKernels(image));
  LOCKSTEP_ASSIGN_OR_RETURN(const Kernel kernel, module->Find(name));
  return std::unique_ptr<collective::DeviceKernel>(
      std::make_unique<LoadedKernel>(std::move(module), kernel));
}

StatusOr<std::unique_ptr<GpuProcessor>> GpuProcessor::Create(
    std::shared_ptr<StreamPair> streams, std::shared_ptr<DeviceAllocator> allocator) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto copier, HostCopier::Create(streams->gpu().shared_from_this(), allocator->pool()));
  std::unique_ptr<GpuProcessor> processor(
      new GpuProcessor(std::move(streams), std::move(allocator), std::move(copier)));
  LOCKSTEP_RETURN_IF_ERROR(processor->elements_.Prepare());
  return processor;
}

Device GpuProcessor::device() const { return {DeviceType::kCuda, streams_->gpu().facts().index}; }

Status GpuProcessor::Begin(const void* memory, size_t size_bytes) {
  was_used_ = true;
  return streams_->BeforeCompute({memory, size_bytes});
}

Status GpuProcessor::Fill(Buffer out, uint64_t pattern) {
  LOCKSTEP_RETURN_IF_ERROR(Begin(out.data, out.count * SizeOf(out.dtype)));
  return elements_.Fill(streams_->compute(), out, pattern);
}

Status GpuProcessor::Arange(const Tensor& out, const tensor::Steps& steps) {
  LOCKSTEP_RETURN_IF_ERROR(Begin(out));
  return elements_.Arange(streams_->compute(), out.buffer(), steps);
}

Status GpuProcessor::Cast(const Tensor& from, const Tensor& to) {
  LOCKSTEP_RETURN_IF_ERROR(Begin(from));
  LOCKSTEP_RETURN_IF_ERROR(Begin(to));
  return elements_.Cast(streams_->compute(), from.buffer(), to.buffer());
}

Status GpuProcessor::CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t row_bytes, size_t rows) {
  if (row_bytes == 0 || rows == 0) return OkStatus();
  const collective::MemoryRange target{to, (rows - 1) * to_pitch + row_bytes};
  const collective::MemoryRange source{from, (rows - 1) * from_pitch + row_bytes};
  LOCKSTEP_RETURN_IF_ERROR(Begin(target.begin, target.size_bytes));
  LOCKSTEP_RETURN_IF_ERROR(Begin(source.begin, source.size_bytes));
  if (rows == 1 && target.Meets(source)) {
    if (to == from) return OkStatus();
    // A GPU copies in any order.
    LOCKSTEP_ASSIGN_OR_RETURN(const auto between, allocator_->Allocate(row_bytes));
    LOCKSTEP_RETURN_IF_ERROR(streams_->compute().Copy(between->data(), from, row_bytes));
    return streams_->compute().Copy(to, between->data(), row_bytes);
  }
  return streams_->compute().CopyRows(to, to_pitch, from, from_pitch, row_bytes, rows);
}

Status GpuProcessor::Launch(const collective::KernelLaunch& launch) {
  for (const collective::MemoryRange& range : launch.memory) {
    LOCKSTEP_RETURN_IF_ERROR(Begin(range.begin, range.size_bytes));
  }
  return streams_->compute().LaunchForEach(static_cast<LoadedKernel&>(launch.kernel).kernel(),
                                           launch.threads, launch.parameters);
}

Status GpuProcessor::FromHost(void* to, const void* from, size_t size_bytes) {
  LOCKSTEP_RETURN_IF_ERROR(Begin(to, size_bytes));
  return copier_->ToGpu(streams_->compute(), to, from, size_bytes, wait_limit_);
}

Status GpuProcessor::ToHost(void* to, const void* from, size_t size_bytes) {
  LOCKSTEP_RETURN_IF_ERROR(Begin(from, size_bytes));
  return copier_->FromGpu(streams_->compute(), to, from, size_bytes, wait_limit_);
}

}  // namespace lockstep::cuda
