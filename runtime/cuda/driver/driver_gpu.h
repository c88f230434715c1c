// A Gpu by the CUDA driver's API (https://docs.nvidia.com/cuda/cuda-driver-api).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/driver/library.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::cuda {

StatusOr<GpuFacts> FactsOf(const Library& cuda, int index);

// The device's primary context, as the CUDA runtime of modules and NCCL use it, too.
class DriverGpu final : public Gpu {
 public:
  static StatusOr<std::shared_ptr<DriverGpu>> Open(const Library& cuda, int index);
  ~DriverGpu() override;

  const GpuFacts& facts() const override { return facts_; }
  Status Bind() override;
  StatusOr<std::unique_ptr<Stream>> NewStream() override;
  StatusOr<std::unique_ptr<Event>> NewEvent(bool timed) override;
  StatusOr<std::unique_ptr<MemoryPool>> NewPool() override;
  StatusOr<void*> AllocateHost(size_t size_bytes) override;
  void FreeHost(void* address) override;
  StatusOr<Kernel> FindKernel(const char* name) override;
  StatusOr<std::unique_ptr<KernelModule>> LoadKernels(absl::Span<const std::byte> image) override;
  StatusOr<MemoryInfo> Memory() const override;
  Status Loss() const override;

  std::shared_ptr<DriverGpu> self() {
    return std::static_pointer_cast<DriverGpu>(shared_from_this());
  }
  const Library& cuda() const { return cuda_; }
  // A result as a Status; notes a loss.
  Status Check(CUresult result, const char* call) {
    if (result == CUDA_SUCCESS) [[likely]]
      return OkStatus();
    return Refused(result, call);
  }

 private:
  DriverGpu(const Library& cuda, GpuFacts facts, CUdevice device, CUcontext context)
      : cuda_(cuda), facts_(std::move(facts)), device_(device), context_(context) {}
  Status Refused(CUresult result, const char* call);

  const Library& cuda_;
  const GpuFacts facts_;
  const CUdevice device_;
  const CUcontext context_;
  mutable std::mutex mutex_;  // guards what follows
  CUmodule kernels_ = nullptr;
  Status loss_;
};

}  // namespace lockstep::cuda
