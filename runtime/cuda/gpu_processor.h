// The processor of a GPU: what built-in functions and the worker do with tensors there.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "runtime/collective/device.h"
#include "runtime/cuda/await.h"
#include "runtime/cuda/device_allocator.h"
#include "runtime/cuda/elements.h"
#include "runtime/cuda/host_copier.h"
#include "runtime/cuda/stream_pair.h"

namespace lockstep::cuda {

// See collective::Accelerator::LoadKernel().
StatusOr<std::unique_ptr<collective::DeviceKernel>> LoadKernel(Gpu& gpu,
                                                               absl::Span<const std::byte> image,
                                                               const std::string& name);

// Everything goes into the compute stream, after communication that uses the same memory.
//
// Threads: one. Waits for the GPU where host memory is given back, within its limit.
class GpuProcessor final : public collective::DeviceProcessor {
 public:
  static StatusOr<std::unique_ptr<GpuProcessor>> Create(std::shared_ptr<StreamPair> streams,
                                                        std::shared_ptr<DeviceAllocator> allocator);

  Device device() const override;
  DeviceAllocator& allocator() override { return *allocator_; }

  Status Fill(Buffer out, uint64_t pattern) override;
  Status Arange(const tensor::Tensor& out, const tensor::Steps& steps) override;
  Status Cast(const tensor::Tensor& from, const tensor::Tensor& to) override;
  Status CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes,
                  size_t rows) override;
  // Of a kernel that LoadKernel() has given.
  Status Launch(const collective::KernelLaunch& launch) override;
  Status FromHost(void* to, const void* from, size_t size_bytes) override;
  Status ToHost(void* to, const void* from, size_t size_bytes) override;

  void SetWaitLimit(collective::WaitLimit limit) override { wait_limit_ = std::move(limit); }
  bool TakeWasUsed() override { return std::exchange(was_used_, false); }

 private:
  GpuProcessor(std::shared_ptr<StreamPair> streams, std::shared_ptr<DeviceAllocator> allocator,
               std::unique_ptr<HostCopier> copier)
      : streams_(std::move(streams)),
        allocator_(std::move(allocator)),
        copier_(std::move(copier)),
        elements_(streams_->gpu().shared_from_this()) {}
  // Before work on this memory.
  Status Begin(const void* memory, size_t size_bytes);
  Status Begin(const tensor::Tensor& tensor) { return Begin(tensor.data(), tensor.size_bytes()); }

  const std::shared_ptr<StreamPair> streams_;
  const std::shared_ptr<DeviceAllocator> allocator_;
  const std::unique_ptr<HostCopier> copier_;
  Elements elements_;
  collective::WaitLimit wait_limit_{Deadline::After(std::chrono::hours(24 * 365))};
  bool was_used_ = false;
};

}  // namespace lockstep::cuda
