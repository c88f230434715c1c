#include "runtime/tensor/storage.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "runtime/base/quantity.h"

namespace lockstep::tensor {
namespace {

// What the storages report back to; shared, because they may outlive the allocator.
class Ledger {
 public:
  void Add(size_t size_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.live_bytes += size_bytes;
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
    ++stats_.live_blocks;
    ++stats_.allocations;
  }
  void Remove(size_t size_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats_.live_bytes -= size_bytes;
    --stats_.live_blocks;
  }
  AllocatorStats Stats() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    AllocatorStats stats = stats_;
    stats.reserved_bytes = stats.live_bytes;
    return stats;
  }

 private:
  mutable std::mutex mutex_;
  AllocatorStats stats_;
};

constexpr std::align_val_t kAlign{Allocator::kAlignment};

class HeapStorage final : public Storage {
 public:
  HeapStorage(std::shared_ptr<Ledger> ledger, void* data, size_t size_bytes)
      : Storage(data, size_bytes, Device{}), ledger_(std::move(ledger)) {
    ledger_->Add(size_bytes);
  }
  ~HeapStorage() override {
    ledger_->Remove(size_bytes());
    ::operator delete(data(), kAlign);
  }

 private:
  const std::shared_ptr<Ledger> ledger_;
};

class HeapAllocator final : public Allocator {
 public:
  StatusOr<std::shared_ptr<Storage>> Allocate(size_t size_bytes) override {
    // Two bounds: what the address space can hold, and what the system grants.
    constexpr size_t kLargestBytes = size_t{1} << 47;
    void* data = size_bytes > kLargestBytes
                     ? nullptr
                     : ::operator new(std::max<size_t>(size_bytes, 1), kAlign, std::nothrow);
    if (data == nullptr) {
      return ResourceExhausted("the heap cannot allocate ", RoundedSize(size_bytes), " beside the ",
                               RoundedSize(ledger_->Stats().live_bytes),
                               " of tensors that are live");
    }
    return std::make_shared<HeapStorage>(ledger_, data, size_bytes);
  }
  AllocatorStats Stats() const override { return ledger_->Stats(); }

 private:
  const std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
};

}  // namespace

std::shared_ptr<Allocator> NewHeapAllocator() { return std::make_shared<HeapAllocator>(); }

}  // namespace lockstep::tensor
