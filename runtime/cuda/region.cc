#include "runtime/cuda/region.h"

#include <cstddef>

namespace lockstep::cuda {

Region::Region(std::shared_ptr<StreamPair> streams, collective::MemoryRange memory,
               std::shared_ptr<void> owner)
    : streams_(std::move(streams)), memory_(memory), owner_(std::move(owner)) {
  blocks_.Extend(memory.size_bytes / kAlignment * kAlignment);
}

StatusOr<void*> Region::Allocate(size_t size_bytes) {
  if (size_bytes > memory_.size_bytes) return nullptr;
  std::lock_guard lock(mutex_);
  if (!streams_->IsCapturing()) LOCKSTEP_RETURN_IF_ERROR(TakeBackWhatIsDone());
  // Classes of such sizes are multiples of it, too, and so is every offset.
  const size_t wanted = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  tensor::BlockPool::Block* const block = blocks_.Allocate(wanted);
  if (block == nullptr) return nullptr;
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(memory_.begin));
  void* const address = begin + block->offset;
  live_[address] = block;
  return address;
}

bool Region::Contains(const void* address) const {
  const auto* const begin = static_cast<const std::byte*>(memory_.begin);
  const auto* const at = static_cast<const std::byte*>(address);
  return at >= begin && at < begin + memory_.size_bytes;
}

Status Region::Free(void* address, Stream& stream) {
  std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return Internal("memory of a region is freed that is not in use");
  tensor::BlockPool::Block* const block = found->second;
  live_.erase(found);
  // Its next owner uses it in the compute stream, or after what is there now.
  if (&stream == &streams_->memory_order()) {
    blocks_.Free(block);
    return OkStatus();
  }
  std::shared_ptr<Event> until;
  if (events_.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(until, streams_->gpu().NewEvent(/*timed=*/false));
  } else {
    until = std::move(events_.back());
    events_.pop_back();
  }
  const Status recorded = stream.Record(*until);
  pending_.push_back({std::move(until), block});
  return recorded;
}

Status Region::TakeBackWhatIsDone() {
  while (!pending_.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool done, pending_.front().until->IsDone());
    if (!done) break;
    blocks_.Free(pending_.front().block);
    events_.push_back(std::move(pending_.front().until));
    pending_.pop_front();
  }
  return OkStatus();
}

size_t Region::live_bytes() const {
  std::lock_guard lock(mutex_);
  return blocks_.live_bytes();
}

}  // namespace lockstep::cuda
