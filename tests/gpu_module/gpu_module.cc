// A module whose functions work on GPUs, well and badly.
#include <cuda.h>

#include <atomic>

#include "runtime/cuda/driver/library.h"
#include "runtime/module/kit/ffi_kernels.h"
#include "tests/gpu_module/bodies.h"

// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" const char _binary_test_kernels_fatbin_start[];

namespace lockstep::testing {
namespace {

template <typename Body>
void RunOn(DLDevice device, const Body& body, int64_t threads) {
  static const ffi::Kernels kernels(_binary_test_kernels_fatbin_start);
  kernels.Run(device, body, threads);
}

DLDevice GpuOf(const ffi::Args& args, int index, const char* name) {
  const DLDevice device = args.DeviceOf(index, name);
  if (ffi::IsHost(device)) ffi::Args::Fail("ValueError", index, name, "must be on a GPU");
  return device;
}

// What spinning kernels of this process look at.
int* Flag() {
  static int* const flag = [] {
    const auto cuda = cuda::LoadLibrary();
    void* memory = nullptr;
    if (!cuda.ok() ||
        (*cuda)->cuMemHostAlloc(&memory, sizeof(int), CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS) {
      throw ffi::Error("RuntimeError", "there is no host memory for the flag");
    }
    auto* const made = static_cast<int*>(memory);
    *made = 0;
    return made;
  }();
  return flag;
}

}  // namespace

// (x: float32, factor): multiplies every element, some time later.
LOCKSTEP_FFI_EXPORT(scale, args, result) {
  const DLDevice device = GpuOf(args, 0, "x");
  const auto x = args.Tensor<float>(0, "x", device);
  RunOn(device, Scale{x.data(), static_cast<uint64_t>(x.size()), args.Float(1, "factor")},
        x.size());
}
LOCKSTEP_FFI_MAY_BE_CAPTURED(scale);

// (x: float32): halves every element. It does not say that it may be captured.
LOCKSTEP_FFI_EXPORT(halve, args, result) {
  const DLDevice device = GpuOf(args, 0, "x");
  const auto x = args.Tensor<float>(0, "x", device);
  RunOn(device, Scale{x.data(), static_cast<uint64_t>(x.size()), 0.5}, x.size());
}

// (tensor): a kernel that does not end before let_go() is called in the same process.
LOCKSTEP_FFI_EXPORT(spin, args, result) {
  RunOn(GpuOf(args, 0, "tensor"), Spin{Flag(), std::atomic_ref(*Flag()) + 1}, 1);
}

// (tensor, rank, which): the same, on the worker whose rank is `which`.
LOCKSTEP_FFI_EXPORT(spin_on, args, result) {
  if (args.Int(1, "rank") != args.Int(2, "which")) return;
  RunOn(GpuOf(args, 0, "tensor"), Spin{Flag(), std::atomic_ref(*Flag()) + 1}, 1);
}

LOCKSTEP_FFI_EXPORT(let_go, args, result) { ++std::atomic_ref(*Flag()); }

// (tensor, rank, which): a kernel that writes where nothing is, on the worker whose rank is
// `which`.
LOCKSTEP_FFI_EXPORT(illegal_address, args, result) {
  if (args.Int(1, "rank") != args.Int(2, "which")) return;
  // Beyond all that is mapped anywhere, and no null pointer, which compilers see through.
  RunOn(GpuOf(args, 0, "tensor"), IllegalAddress{reinterpret_cast<int*>(uintptr_t{1} << 46)}, 1);
}

}  // namespace lockstep::testing
