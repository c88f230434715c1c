#include "runtime/collective/nccl/library.h"

#include <dlfcn.h>

#include "runtime/base/load_once.h"

namespace lockstep::collective::nccl {
namespace {

// The first with ncclCommSplit.
constexpr int kOldest = 21800;

// NCCL has one result for all errors of CUDA's. These are its words, of 2.18 to 2.28, where memory
// is allocated.
bool IsLackOfMemory(const std::string& detail) {
  return detail.find("out of memory") != std::string::npos ||
         detail.find("Failed to CUDA calloc") != std::string::npos ||
         detail.find("Failed to CUDA malloc") != std::string::npos;
}

template <typename Function>
void FindOptional(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
}

Status FindFunctions(void* handle, const std::string& file, Library& library) {
#define LOCKSTEP_NCCL_FIND(name)                                                                 \
  library.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name));                      \
  if (library.name == nullptr) {                                                                 \
    return Unavailable(file, " has no ", #name, ": it is older than 2.18; install a newer one"); \
  }
  LOCKSTEP_NCCL_FUNCTIONS(LOCKSTEP_NCCL_FIND)
#undef LOCKSTEP_NCCL_FIND
  FindOptional(handle, "ncclGather", &library.gather);
  FindOptional(handle, "ncclScatter", &library.scatter);
  FindOptional(handle, LOCKSTEP_NCCL_ALL_TO_ALL, &library.all_to_all);
  FindOptional(handle, "ncclMemAlloc", &library.mem_alloc);
  FindOptional(handle, "ncclMemFree", &library.mem_free);
  FindOptional(handle, "ncclCommRegister", &library.register_memory);
  FindOptional(handle, "ncclCommDeregister", &library.deregister_memory);
  return OkStatus();
}

StatusOr<Library> Load(const std::string& file) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return Unavailable(
        "there is no " LOCKSTEP_NCCL_NAME " here (", dlerror(),
        "); install it (package libnccl2, or the Python package nvidia-nccl-cu13), and set "
        "nccl_library if the dynamic linker does not find it");
  }
  Library library;
  LOCKSTEP_RETURN_IF_ERROR(FindFunctions(handle, file, library));
  LOCKSTEP_RETURN_IF_ERROR(
      ToStatus(library, library.ncclGetVersion(&library.version), "ncclGetVersion", nullptr));
  if (library.version < kOldest) {
    return Unavailable(file, " is " LOCKSTEP_NCCL_NAME " ", library.VersionText(),
                       ", and 2.18 is the oldest that is used; install a newer one");
  }
  return library;
}

}  // namespace

std::string Library::VersionText() const {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

StatusOr<const Library*> LoadLibrary(const std::string& file) {
  return LoadOnce<Library>([&] { return Load(file.empty() ? LOCKSTEP_NCCL_FILE : file); });
}

Status ToStatus(const Library& library, ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) [[likely]]
    return OkStatus();
  StatusCode code = StatusCode::kInternal;
  if (result == ncclRemoteError) code = StatusCode::kUnavailable;
  // Connections that cannot be made, or break; descriptors, or shared memory, that there are none
  // of.
  if (result == ncclSystemError) code = StatusCode::kUnavailable;
  const char* const text = library.ncclGetLastError(comm);
  const std::string detail = text != nullptr ? text : "";
  const char* advice = "";
  if (result == ncclSystemError) {
    advice =
        "; is /dev/shm large enough, and do the hosts reach each other? NCCL_DEBUG=INFO says more "
        "in the worker's log";
  }
  if (result == ncclUnhandledCudaError && IsLackOfMemory(detail)) {
    code = StatusCode::kResourceExhausted;
    advice =
        "; " LOCKSTEP_NCCL_NAME
        " allocates memory of the GPU for itself when a communicator does something for the first "
        "time: free tensors, leave more beside them (device_memory_bytes), or use fewer teams; "
        "then reset the session";
  }
  return MakeStatus(code, call, ": ", library.ncclGetErrorString(result),
                    detail.empty() ? "" : " (" + detail + ")", advice);
}

}  // namespace lockstep::collective::nccl
