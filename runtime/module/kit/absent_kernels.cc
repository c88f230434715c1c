// What ffi_kernels.h promises, where the build has no CUDA.
#include "runtime/module/kit/ffi_kernels.h"

namespace lockstep::ffi {

void Kernels::Launch(DLDevice, const char* name, const void*, int64_t) const {
  throw Error("RuntimeError", std::string(name) + ": this module was built without CUDA");
}

}  // namespace lockstep::ffi
