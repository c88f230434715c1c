#include "runtime/module/kit/ffi_kernels.h"

#include "runtime/cuda/driver/launch.h"

namespace lockstep::ffi {
namespace {

void Check(const cuda::Library& cuda, CUresult result, const char* call, const char* name) {
  if (result == CUDA_SUCCESS) return;
  throw Error("RuntimeError",
              std::string(name) + ": " + Message(cuda::ToStatus(cuda, result, call)));
}

}  // namespace

void Kernels::Launch(DLDevice device, const char* name, const void* body, int64_t threads) const {
  if (device.device_type != kDLCUDA) {
    throw Error("ValueError",
                "no kernels for a device of type " + std::to_string(device.device_type));
  }
  const auto loaded = cuda::LoadLibrary();
  if (!loaded.ok()) throw Error("RuntimeError", Message(loaded.status()));
  const cuda::Library& cuda = **loaded;
  CUfunction kernel = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (library_ == nullptr) {
      // Of all GPUs of the process: each context loads its own code when it first needs it.
      CUlibrary library = nullptr;
      Check(cuda,
            cuda.cuLibraryLoadData(&library, image_, nullptr, nullptr, 0, nullptr, nullptr, 0),
            "cuLibraryLoadData", name);
      library_ = library;
    }
    void*& found = found_[name];
    if (found == nullptr) {
      CUkernel asked = nullptr;
      Check(cuda, cuda.cuLibraryGetKernel(&asked, static_cast<CUlibrary>(library_), name),
            "cuLibraryGetKernel", name);
      found = asked;
    }
    // As CUDA's reference says of cuLaunchKernel().
    kernel = reinterpret_cast<CUfunction>(found);
  }
  auto* const stream = static_cast<CUstream>(TVMFFIEnvGetStream(kDLCUDA, device.device_id));
  Check(cuda,
        cuda::LaunchKernel(cuda, kernel, threads > 0 ? static_cast<uint64_t>(threads) : 0, body,
                           stream),
        "cuLaunchKernel", name);
}

}  // namespace lockstep::ffi
