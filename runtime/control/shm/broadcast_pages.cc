#include "runtime/control/shm/broadcast_pages.h"

namespace lockstep::control {

StatusOr<std::shared_ptr<BroadcastPages>> BroadcastPages::Create(int slots,
                                                                 uint64_t capacity_words) {
  const size_t size_bytes = BroadcastMemory::SizeBytes(slots, capacity_words);
  LOCKSTEP_ASSIGN_OR_RETURN(Descriptor descriptor, CreateMemory(size_bytes));
  LOCKSTEP_ASSIGN_OR_RETURN(
      MappedMemory pages,
      MappedMemory::Map(descriptor, size_bytes, MappedMemory::Access::kReadAndWrite));
  LOCKSTEP_RETURN_IF_ERROR(SealWrites(descriptor));
  return std::make_shared<BroadcastPages>(std::move(descriptor), std::move(pages), slots,
                                          capacity_words);
}

}  // namespace lockstep::control
