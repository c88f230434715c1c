// Memory pools by the CUDA driver's API (stream-ordered allocation).
#pragma once

#include <memory>
#include <utility>

#include "runtime/cuda/driver/driver_gpu.h"

namespace lockstep::cuda {

class DriverPool final : public MemoryPool {
 public:
  static StatusOr<std::unique_ptr<MemoryPool>> Create(const std::shared_ptr<DriverGpu>& gpu,
                                                      CUdevice device);
  DriverPool(std::shared_ptr<DriverGpu> gpu, CUmemoryPool pool)
      : gpu_(std::move(gpu)), pool_(pool) {}
  ~DriverPool() override;

  StatusOr<void*> Allocate(size_t size_bytes, Stream& stream) override;
  Status Free(void* address, Stream& stream) override;
  Status Trim(size_t keep_bytes) override;
  StatusOr<size_t> ReservedBytes() const override;

 private:
  const std::shared_ptr<DriverGpu> gpu_;
  const CUmemoryPool pool_;
};

}  // namespace lockstep::cuda
