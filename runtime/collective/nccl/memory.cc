#include "runtime/collective/nccl/memory.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/collective/nccl/library.h"

namespace lockstep::collective::nccl {
namespace {

class Memory final : public RegisteredMemory {
 public:
  Memory(const Library& library, std::shared_ptr<cuda::Gpu> gpu, void* data, size_t size_bytes)
      : RegisteredMemory(data, size_bytes), library_(library), gpu_(std::move(gpu)) {}
  ~Memory() override {
    // On whichever thread. What is lost with its GPU goes with the process.
    if (!gpu_->Bind().ok() || !gpu_->Loss().ok()) return;
    const ncclResult_t freed = library_.mem_free(data());
    if (freed != ncclSuccess) {
      log::Warn("memory that was registered is not freed: ",
                Message(ToStatus(library_, freed, "ncclMemFree", nullptr)));
    }
  }

 private:
  const Library& library_;
  const std::shared_ptr<cuda::Gpu> gpu_;
};

}  // namespace

StatusOr<std::shared_ptr<RegisteredMemory>> RegisteredMemory::Allocate(
    const std::string& library, std::shared_ptr<cuda::Gpu> gpu, size_t size_bytes) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Library* const nccl, LoadLibrary(library));
  if (nccl->mem_alloc == nullptr || nccl->mem_free == nullptr || nccl->register_memory == nullptr ||
      nccl->deregister_memory == nullptr) {
    return Unimplemented(LOCKSTEP_NCCL_NAME " ", nccl->VersionText(),
                         " registers no memory: it takes 2.19, or registered_memory_bytes: 0");
  }
  void* data = nullptr;
  const ncclResult_t result = nccl->mem_alloc(&data, size_bytes);
  if (result != ncclSuccess) {
    return ResourceExhausted("GPU ", gpu->facts().index, " cannot register ", size_bytes,
                             " bytes (registered_memory_bytes): ",
                             Message(ToStatus(*nccl, result, "ncclMemAlloc", nullptr)));
  }
  return std::make_shared<Memory>(*nccl, std::move(gpu), data, size_bytes);
}

}  // namespace lockstep::collective::nccl
