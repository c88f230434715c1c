#include "runtime/cuda/driver/library.h"

#include <dlfcn.h>

#include <string_view>

#include "runtime/base/load_once.h"
#include "runtime/cuda/gpu.h"

namespace lockstep::cuda {
namespace {

constexpr char kFile[] = "libcuda.so.1";

// The first driver of each major version of CUDA, which runs what any toolkit of that version
// compiles (https://docs.nvidia.com/deploy/cuda-compatibility).
const char* FirstDriverOf(int major) {
  switch (major) {
    case 12:
      return "525";
    case 13:
      return "580";
    default:
      return "one";
  }
}

// What a later header calls by another name; the older function does the same.
const char* OlderNameOf(std::string_view name) {
  // Since CUDA 12.8.
  return name == "cuEventElapsedTime_v2" ? "cuEventElapsedTime" : nullptr;
}

// What an older header calls without its version, although another function is meant.
const char* BetterNameOf(std::string_view name) {
  // It tells the slices of a GPU apart; the one without a version gives the whole GPU's. Headers
  // before CUDA 13 have both.
  return name == "cuDeviceGetUuid" ? "cuDeviceGetUuid_v2" : nullptr;
}

void* FindFunction(void* handle, const char* name) {
  const char* const better = BetterNameOf(name);
  void* found = better == nullptr ? nullptr : dlsym(handle, better);
  if (found == nullptr) found = dlsym(handle, name);
  const char* const older = OlderNameOf(name);
  return found != nullptr || older == nullptr ? found : dlsym(handle, older);
}

#define LOCKSTEP_CUDA_TEXT(name) #name

// Each function by the name that the header's macros give it.
Status FindFunctions(void* handle, Library& library) {
#define LOCKSTEP_CUDA_FIND(name)                                                              \
  library.name =                                                                              \
      reinterpret_cast<decltype(&::name)>(FindFunction(handle, LOCKSTEP_CUDA_TEXT(name)));    \
  if (library.name == nullptr) {                                                              \
    return Unavailable(kFile, " has no ", LOCKSTEP_CUDA_TEXT(name),                           \
                       ": the NVIDIA driver is too old for CUDA ", CUDA_VERSION / 1000,       \
                       "; install driver ", FirstDriverOf(CUDA_VERSION / 1000), " or newer"); \
  }
  LOCKSTEP_CUDA_FUNCTIONS(LOCKSTEP_CUDA_FIND)
#undef LOCKSTEP_CUDA_FIND
  return OkStatus();
}

StatusOr<Library> Load() {
  void* const handle = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Unavailable(
        "there is no NVIDIA driver here (", dlerror(),
        "); install it on the host, and give containers access to it (the NVIDIA container "
        "toolkit)");
  }
  Library library;
  LOCKSTEP_RETURN_IF_ERROR(FindFunctions(handle, library));
  const CUresult started = library.cuInit(0);
  if (started != CUDA_SUCCESS) {
    return Unavailable(Message(ToStatus(library, started, "cuInit")),
                       "; does nvidia-smi list a GPU, and does CUDA_VISIBLE_DEVICES name one?");
  }
  int version = 0;
  LOCKSTEP_RETURN_IF_ERROR(
      ToStatus(library, library.cuDriverGetVersion(&version), "cuDriverGetVersion"));
  LOCKSTEP_RETURN_IF_ERROR(CheckDriverVersion(version, CUDA_VERSION));
  return library;
}

}  // namespace

Status CheckDriverVersion(int driver_version, int toolkit_version) {
  const int needed = toolkit_version / 1000;
  if (driver_version / 1000 >= needed) return OkStatus();
  return Unavailable("the NVIDIA driver knows CUDA ", CudaVersionText(driver_version),
                     ", and this program's kernels were compiled by CUDA ",
                     CudaVersionText(toolkit_version), ", which drivers before ",
                     FirstDriverOf(needed), " cannot load; install driver ", FirstDriverOf(needed),
                     " or newer, or build with a toolkit of CUDA ", driver_version / 1000,
                     " (LOCKSTEP_CUDA names its directory)");
}

StatusOr<const Library*> LoadLibrary() { return LoadOnce<Library>(Load); }

Status ToStatus(const Library& library, CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) [[likely]]
    return OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  (void)library.cuGetErrorName(result, &name);
  (void)library.cuGetErrorString(result, &text);
  const StatusCode code =
      result == CUDA_ERROR_OUT_OF_MEMORY ? StatusCode::kResourceExhausted : StatusCode::kInternal;
  return MakeStatus(code, call, ": ", name != nullptr ? name : "an unknown error", " (",
                    static_cast<int>(result), text != nullptr ? std::string(", ") + text : "", ")");
}

bool LosesContext(CUresult result) {
  // Not in the headers of every toolkit.
  constexpr int kContained = 226;
  constexpr int kTensorMemoryLeak = 721;
  constexpr int kMpsClientTerminated = 810;
  switch (static_cast<int>(result)) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case kContained:
    case kTensorMemoryLeak:
    case kMpsClientTerminated:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep::cuda
