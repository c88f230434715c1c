#include "runtime/cuda/nvml/library.h"

#include <dlfcn.h>

#include "runtime/base/load_once.h"

namespace lockstep::cuda::nvml {
namespace {

constexpr char kFile[] = "libnvidia-ml.so.1";

#define LOCKSTEP_NVML_TEXT(name) #name

Status FindFunctions(void* handle, Library& library) {
#define LOCKSTEP_NVML_FIND(name)                                                               \
  library.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, LOCKSTEP_NVML_TEXT(name))); \
  if (library.name == nullptr) {                                                               \
    return Unavailable(kFile, " has no ", LOCKSTEP_NVML_TEXT(name),                            \
                       ": the NVIDIA driver is older than 580");                               \
  }
  LOCKSTEP_NVML_FUNCTIONS(LOCKSTEP_NVML_FIND)
#undef LOCKSTEP_NVML_FIND
  return OkStatus();
}

StatusOr<Library> Load() {
  void* const handle = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Unavailable("there is no NVML here (", dlerror(),
                       "); it comes with the NVIDIA driver, and containers get it with the driver "
                       "capability \"utility\"");
  }
  Library library;
  LOCKSTEP_RETURN_IF_ERROR(FindFunctions(handle, library));
  LOCKSTEP_RETURN_IF_ERROR(ToStatus(library, library.nvmlInit(), "nvmlInit"));
  return library;
}

}  // namespace

StatusOr<const Library*> LoadLibrary() { return LoadOnce<Library>(Load); }

Status ToStatus(const Library& library, nvmlReturn_t result, const char* call) {
  if (result == NVML_SUCCESS) return OkStatus();
  return Unavailable(call, ": ", library.nvmlErrorString(result));
}

}  // namespace lockstep::cuda::nvml
