#include "runtime/cuda/driver/launch.h"

#include <algorithm>

namespace lockstep::cuda {
namespace {

constexpr unsigned kThreadsPerBlock = 256;
// More than any GPU runs at a time: further elements are further turns of the same threads.
constexpr uint64_t kMostBlocks = 4096;

}  // namespace

CUresult LaunchKernel(const Library& library, CUfunction kernel, uint64_t threads,
                      const void* parameters, CUstream stream) {
  if (threads == 0) return CUDA_SUCCESS;
  const uint64_t blocks =
      std::min((threads + kThreadsPerBlock - 1) / kThreadsPerBlock, kMostBlocks);
  void* arguments[] = {const_cast<void*>(parameters)};
  return library.cuLaunchKernel(kernel, static_cast<unsigned>(blocks), 1, 1, kThreadsPerBlock, 1, 1,
                                /*sharedMemBytes=*/0, stream, arguments, /*extra=*/nullptr);
}

}  // namespace lockstep::cuda
