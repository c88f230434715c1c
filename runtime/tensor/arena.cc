#include "runtime/tensor/arena.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/prefault.h"
#include "runtime/base/quantity.h"
#include "runtime/tensor/block_pool.h"

namespace lockstep::tensor {
namespace {

constexpr size_t kPageBytes = 4096;
// A worker that holds no tensors keeps only this much of /dev/shm beside the control area.
constexpr size_t kFirstHeapBytes = size_t{3} << 20;
// The heap doubles until it is this large, and then grows in steps of this size.
constexpr size_t kLargestStepBytes = size_t{256} << 20;

constexpr size_t RoundUpToPage(size_t size) {
  return (size + kPageBytes - 1) / kPageBytes * kPageBytes;
}

class ArenaImpl final : public Arena {
 public:
  ArenaImpl(std::unique_ptr<SharedSegment> segment, size_t control_bytes)
      : segment_(std::move(segment)), control_bytes_(control_bytes) {}

  // Sets the control area and the first piece of the heap aside.
  Status Start() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return Grow(std::min(kFirstHeapBytes, HeapCapacity()));
  }

  const std::string& name() const override { return segment_->name(); }
  std::byte* base() const override { return segment_->data(); }
  size_t capacity_bytes() const override { return segment_->capacity_bytes(); }
  std::byte* control() const override { return segment_->data(); }
  size_t control_bytes() const override { return control_bytes_; }

  StatusOr<std::shared_ptr<Storage>> Allocate(size_t size_bytes) override;
  void HoldBack(const void* address, std::function<bool()> in_use) override;
  AllocatorStats Stats() const override;

 private:
  class BlockStorage;

  // A reason to keep a block. A block may have several.
  struct Hold {
    BlockPool::Block* block;
    std::function<bool()> in_use;
    bool released;  // its storage has gone
  };

  size_t HeapCapacity() const { return capacity_bytes() - control_bytes_; }
  std::byte* Heap() const { return base() + control_bytes_; }

  // These want mutex_ held.
  Status Grow(size_t size_bytes);
  // Frees what was held back for users that are through. Returns their holds, which are destroyed
  // without the lock.
  std::vector<Hold> DropHolds();
  bool IsHeld(const BlockPool::Block* block) const {
    return std::any_of(holds_.begin(), holds_.end(),
                       [&](const Hold& hold) { return hold.block == block; });
  }
  StatusOr<BlockPool::Block*> GrowAndAllocate(size_t size_bytes);
  // The same from the last bytes there are, without rounding up. `reason` is why more cannot be
  // had.
  StatusOr<BlockPool::Block*> AllocateLast(size_t size_bytes, const std::string& reason);
  Status Exhausted(size_t size_bytes, const std::string& reason) const;

  void Release(BlockPool::Block* block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!IsHeld(block)) [[likely]]
      return pool_.Free(block);
    for (Hold& hold : holds_) hold.released |= hold.block == block;
  }

  const std::shared_ptr<SharedSegment> segment_;
  const size_t control_bytes_;
  mutable std::mutex mutex_;
  BlockPool pool_;           // offsets count from Heap()
  std::vector<Hold> holds_;  // hardly ever any
  size_t peak_bytes_ = 0;
  size_t allocations_ = 0;
  Prefault prefault_;
};

class ArenaImpl::BlockStorage final : public Storage {
 public:
  BlockStorage(std::shared_ptr<ArenaImpl> arena, BlockPool::Block* block, void* data,
               size_t size_bytes)
      : Storage(data, size_bytes, Device{}), arena_(std::move(arena)), block_(block) {}
  ~BlockStorage() override { arena_->Release(block_); }

 private:
  const std::shared_ptr<ArenaImpl> arena_;
  BlockPool::Block* const block_;
};

StatusOr<std::shared_ptr<Storage>> ArenaImpl::Allocate(size_t size_bytes) {
  BlockPool::Block* block = nullptr;
  std::vector<Hold> dropped;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (size_bytes > HeapCapacity()) return Exhausted(size_bytes, "");
    block = pool_.Allocate(size_bytes);
    if (block == nullptr && !holds_.empty()) [[unlikely]] {
      dropped = DropHolds();
      block = pool_.Allocate(size_bytes);
    }
    if (block == nullptr) [[unlikely]] {
      LOCKSTEP_ASSIGN_OR_RETURN(block, GrowAndAllocate(size_bytes));
    }
    peak_bytes_ = std::max(peak_bytes_, pool_.live_bytes());
    ++allocations_;
  }
  return std::make_shared<BlockStorage>(std::static_pointer_cast<ArenaImpl>(shared_from_this()),
                                        block, Heap() + block->offset, size_bytes);
}

void ArenaImpl::HoldBack(const void* address, std::function<bool()> in_use) {
  std::vector<Hold> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  dropped = DropHolds();
  if (!Contains(address) || address < Heap()) return;
  BlockPool::Block* block = pool_.Find(OffsetOf(address) - control_bytes_);
  if (block != nullptr) holds_.push_back({block, std::move(in_use), false});
}

std::vector<ArenaImpl::Hold> ArenaImpl::DropHolds() {
  const auto over =
      std::partition(holds_.begin(), holds_.end(), [](const Hold& hold) { return hold.in_use(); });
  std::vector<Hold> dropped(std::make_move_iterator(over), std::make_move_iterator(holds_.end()));
  holds_.erase(over, holds_.end());
  std::vector<BlockPool::Block*> free;
  for (const Hold& hold : dropped) {
    if (hold.released && !IsHeld(hold.block)) free.push_back(hold.block);
  }
  std::sort(free.begin(), free.end());
  free.erase(std::unique(free.begin(), free.end()), free.end());
  for (BlockPool::Block* block : free) pool_.Free(block);
  return dropped;
}

Status ArenaImpl::Grow(size_t size_bytes) {
  const size_t had_bytes = pool_.range_bytes();
  LOCKSTEP_RETURN_IF_ERROR(segment_->Reserve(control_bytes_ + had_bytes + size_bytes));
  if (size_bytes > 0) pool_.Extend(size_bytes);
  // Not the first piece, which may never be used, and would make all workers start later.
  if (had_bytes > 0) prefault_.InBackground(segment_, Heap() + had_bytes, size_bytes);
  return OkStatus();
}

StatusOr<BlockPool::Block*> ArenaImpl::GrowAndAllocate(size_t size_bytes) {
  const size_t room = HeapCapacity() - pool_.range_bytes();
  const size_t missing = RoundUpToPage(pool_.MissingFor(size_bytes));
  if (missing > room) return AllocateLast(size_bytes, "");
  const size_t step = std::min(RoundUpToPage(pool_.range_bytes()), kLargestStepBytes);
  const size_t generous = std::min(std::max(missing, step), room);
  Status status = Grow(generous);
  // A nearly full /dev/shm may still have what is needed now.
  if (!status.ok() && generous > missing) status = Grow(missing);
  if (!status.ok()) {
    if (status.code() != StatusCode::kResourceExhausted) return status;
    return AllocateLast(size_bytes, Message(status));
  }
  return pool_.Allocate(size_bytes);
}

StatusOr<BlockPool::Block*> ArenaImpl::AllocateLast(size_t size_bytes, const std::string& reason) {
  if (BlockPool::Block* block = pool_.AllocateTight(size_bytes)) return block;
  const size_t missing = RoundUpToPage(pool_.MissingForTight(size_bytes));
  if (missing > HeapCapacity() - pool_.range_bytes()) return Exhausted(size_bytes, reason);
  const Status status = Grow(missing);
  if (!status.ok()) {
    if (status.code() != StatusCode::kResourceExhausted) return status;
    return Exhausted(size_bytes, Message(status));
  }
  return pool_.AllocateTight(size_bytes);
}

Status ArenaImpl::Exhausted(size_t size_bytes, const std::string& reason) const {
  static const std::string kRemedy =
      std::string("free some registers, or raise the limit (") + kArenaSetting + ")";
  return ResourceExhausted("arena ", name(), " cannot allocate ", RoundedSize(size_bytes), ": ",
                           RoundedSize(pool_.live_bytes()), " are live in ", pool_.live_blocks(),
                           " blocks, ", RoundedSize(pool_.range_bytes()), " reserved, ",
                           RoundedSize(HeapCapacity()), " is the capacity",
                           holds_.empty() ? "" : "; some are held back for peers that were stopped",
                           "; ", reason.empty() ? kRemedy : reason);
}

AllocatorStats ArenaImpl::Stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {.live_bytes = pool_.live_bytes(),
          .peak_bytes = peak_bytes_,
          .reserved_bytes = control_bytes_ + pool_.range_bytes(),
          .live_blocks = pool_.live_blocks(),
          .allocations = allocations_};
}

}  // namespace

StatusOr<std::shared_ptr<Arena>> Arena::Create(const ArenaOptions& options) {
  const size_t control_bytes = RoundUpToPage(options.control_bytes);
  // Whole pages only, so that the heap's end is a multiple of its granule.
  const size_t capacity_bytes = options.capacity_bytes / kPageBytes * kPageBytes;
  if (capacity_bytes <= control_bytes) {
    return InvalidArgument("arena ", options.name, " of ", options.capacity_bytes,
                           " bytes has no room beside its control area of ", control_bytes,
                           " bytes");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(auto segment, SharedSegment::Create(options.name, capacity_bytes));
  auto arena = std::make_shared<ArenaImpl>(std::move(segment), control_bytes);
  LOCKSTEP_RETURN_IF_ERROR(arena->Start());
  return std::shared_ptr<Arena>(std::move(arena));
}

}  // namespace lockstep::tensor
