#include "runtime/cuda/driver/driver_memory.h"

#include <cstdint>

namespace lockstep::cuda {
namespace {

// While it lives, this thread may allocate and free beside what it captures. CUDA does not look at
// which stream an allocation is for: it refuses any by a thread that captures, and ends the
// capture, because some allocations wait for the GPU. Those of a pool do not.
class BesideCapture {
 public:
  explicit BesideCapture(const Library& cuda) : cuda_(cuda) { Exchange(); }
  ~BesideCapture() { Exchange(); }
  BesideCapture(const BesideCapture&) = delete;
  BesideCapture& operator=(const BesideCapture&) = delete;

 private:
  // It touches this thread alone, and has no way to fail.
  void Exchange() { (void)cuda_.cuThreadExchangeStreamCaptureMode(&mode_); }

  const Library& cuda_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace

StatusOr<std::unique_ptr<MemoryPool>> DriverPool::Create(const std::shared_ptr<DriverGpu>& gpu,
                                                         CUdevice device) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemoryPool pool = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(
      gpu->Check(gpu->cuda().cuMemPoolCreate(&pool, &properties), "cuMemPoolCreate"));
  auto result = std::make_unique<DriverPool>(gpu, pool);
  // Without this everything free would be given back whenever a thread waits for the stream.
  cuuint64_t keep = UINT64_MAX;
  LOCKSTEP_RETURN_IF_ERROR(
      gpu->Check(gpu->cuda().cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep),
                 "cuMemPoolSetAttribute"));
  return std::unique_ptr<MemoryPool>(std::move(result));
}

DriverPool::~DriverPool() { (void)gpu_->cuda().cuMemPoolDestroy(pool_); }

StatusOr<void*> DriverPool::Allocate(size_t size_bytes, Stream& stream) {
  const BesideCapture beside(gpu_->cuda());
  CUdeviceptr address = 0;
  LOCKSTEP_RETURN_IF_ERROR(gpu_->Check(
      gpu_->cuda().cuMemAllocFromPoolAsync(&address, size_bytes, pool_, stream.handle()),
      "cuMemAllocFromPoolAsync"));
  return reinterpret_cast<void*>(address);
}

Status DriverPool::Free(void* address, Stream& stream) {
  const BesideCapture beside(gpu_->cuda());
  return gpu_->Check(
      gpu_->cuda().cuMemFreeAsync(reinterpret_cast<CUdeviceptr>(address), stream.handle()),
      "cuMemFreeAsync");
}

Status DriverPool::Trim(size_t keep_bytes) {
  return gpu_->Check(gpu_->cuda().cuMemPoolTrimTo(pool_, keep_bytes), "cuMemPoolTrimTo");
}

StatusOr<size_t> DriverPool::ReservedBytes() const {
  cuuint64_t bytes = 0;
  LOCKSTEP_RETURN_IF_ERROR(gpu_->Check(
      gpu_->cuda().cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes),
      "cuMemPoolGetAttribute"));
  return static_cast<size_t>(bytes);
}

}  // namespace lockstep::cuda
