// For authors of modules with CUDA kernels: one function for host and GPU, one body for both.
//
//     // bodies.h, read by nvcc and by the host's compiler (runtime/base/kernel.h)
//     struct Scale {
//       static constexpr char kName[] = "scale";
//       float* x; uint64_t count; float factor;
//       LOCKSTEP_HOST_DEVICE void Run(uint64_t first, uint64_t step) const {
//         for (uint64_t i = first; i < count; i += step) x[i] *= factor;
//       }
//     };
//     // kernels.cu, compiled by cuda_kernels() (third_party/cuda/fatbin.bzl)
//     LOCKSTEP_KERNEL(scale, Scale)
//     // module.cc
//     LOCKSTEP_FFI_EXPORT(scale, args, result) {
//       static const ffi::Kernels kernels(_binary_my_kernels_fatbin_start);
//       const DLDevice device = args.DeviceOf(0, "x");
//       const auto x = args.Tensor<float>(0, "x", device);
//       kernels.Run(device, Scale{x.data(), x.size(), 2.0f}, x.size());
//     }
//
// Nothing of CUDA is linked: the module loads where there is no GPU, too. Kernels that are launched
// by nvcc's own <<<>>> work just as well, in the stream that TVMFFIEnvGetStream() tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "runtime/module/kit/ffi_export.h"

namespace lockstep::ffi {

// The kernels of one module. Threads: safe.
class Kernels {
 public:
  // `image`: device code as nvcc -fatbin makes it; it is looked at when a kernel is first run on a
  // GPU, and stays.
  explicit Kernels(const void* image) : image_(image) {}

  // Runs `body` where its memory lies: on the host at once, by this thread; on a GPU by at least
  // `threads` threads or by fewer in several turns, in the worker's current stream, some time
  // later. Errors: those of a GPU that refuses are thrown as "RuntimeError".
  template <typename Body>
  void Run(DLDevice device, const Body& body, int64_t threads) const {
    if (IsHost(device)) {
      body.Run(0, 1);
    } else {
      Launch(device, Body::kName, &body, threads);
    }
  }

 private:
  void Launch(DLDevice device, const char* name, const void* body, int64_t threads) const;

  const void* const image_;
  mutable std::mutex mutex_;  // guards what follows
  mutable void* library_ = nullptr;
  mutable std::map<std::string, void*> found_;
};

}  // namespace lockstep::ffi
