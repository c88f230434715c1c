// The fake driver's memory: what is allocated, and copies.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "tests/fakes/cuda/driver.h"
#include "tests/fakes/cuda/fake_cuda.h"

using namespace lockstep::fake_cuda;

namespace lockstep::fake_cuda {
namespace {

template <typename T>
T* View(T* address) {
  return static_cast<T*>(fake_cuda_host_view(address));
}

void CopyRows(const CUDA_MEMCPY2D& copy) {
  for (size_t row = 0; row < copy.Height; ++row) {
    std::memmove(reinterpret_cast<std::byte*>(copy.dstDevice) + row * copy.dstPitch,
                 reinterpret_cast<const std::byte*>(copy.srcDevice) + row * copy.srcPitch,
                 copy.WidthInBytes);
  }
}

}  // namespace
}  // namespace lockstep::fake_cuda

extern "C" {

void* fake_cuda_host_view(const void* address) {
  for (const auto& gpu : Gpus()) {
    if (gpu->memory.Contains(address)) return gpu->memory.HostView(address);
  }
  return const_cast<void*>(address);
}

void* fake_cuda_allocate(size_t size_bytes) {
  if (current_context == nullptr || CheckThatNothingIsCaptured() != CUDA_SUCCESS) return nullptr;
  Gpu& gpu = *Gpus()[static_cast<size_t>(current_context->device)];
  return size_bytes <= gpu.FreeBytes() ? gpu.memory.Allocate(size_bytes) : nullptr;
}
void fake_cuda_free(void* address) {
  for (const auto& gpu : Gpus()) gpu->memory.Free(address);
}

size_t fake_cuda_allocated_bytes() {
  size_t bytes = 0;
  for (const auto& gpu : Gpus()) bytes += gpu->memory.allocated_bytes();
  return bytes;
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  RETURN_IF_UNBOUND();
  Gpu& gpu = *Gpus()[static_cast<size_t>(current_context->device)];
  *total_bytes = gpu.memory.size_bytes();
  *free_bytes = gpu.FreeBytes();
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *address == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  std::free(address);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  RETURN_IF_STICKY();
  *pool = &Gpus()[static_cast<size_t>(properties->location.id)]->pool;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool) { return CUDA_SUCCESS; }
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return Sticky(); }

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  RETURN_IF_STICKY();
  if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(pool->mutex);
  *static_cast<cuuint64_t*>(value) = pool->reserved_bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes) {
  RETURN_IF_STICKY();
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  std::lock_guard lock(pool->mutex);
  pool->reserved_bytes =
      std::min(pool->reserved_bytes, std::max<size_t>(pool->live_bytes, keep_bytes));
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  RETURN_IF_UNBOUND();
  // CUDA makes it memory of the graph, which is not what anyone here wants.
  RETURN_IF_NOT_OK(CheckThatStreamIsNotCaptured(stream));
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  void* const memory = Gpus()[static_cast<size_t>(pool->device)]->AllocateFromPool(bytes);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatStreamIsNotCaptured(stream));
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  stream->work.Add([=] {
    for (const auto& gpu : Gpus()) gpu->FreeToPool(reinterpret_cast<void*>(address));
  });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = bytes;
  copy.Height = 1;
  return cuMemcpy2DAsync(&copy, stream);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* given, CUstream stream) {
  RETURN_IF_UNBOUND();
  CUDA_MEMCPY2D copy = *given;
  auto* const to = reinterpret_cast<void*>(copy.dstDevice);
  auto* const from = reinterpret_cast<void*>(copy.srcDevice);
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(View(to));
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(View(from));
  // Whether host memory is pinned is not known here. CUDA reads pinned memory later, so this does,
  // too.
  return Put(stream, [copy] { CopyRows(copy); });
}

}  // extern "C"
