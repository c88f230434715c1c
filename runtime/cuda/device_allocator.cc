#include "runtime/cuda/device_allocator.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/device.h"
#include "runtime/base/log.h"
#include "runtime/base/quantity.h"

namespace lockstep::cuda {
namespace {

constexpr std::chrono::seconds kCollectFor{5};

collective::MemoryRange RangeOf(const tensor::Storage& storage) {
  return {storage.data(), storage.size_bytes()};
}

}  // namespace

class DeviceAllocator::DeviceStorage final : public tensor::Storage {
 public:
  DeviceStorage(std::shared_ptr<DeviceAllocator> allocator, void* data, size_t size_bytes,
                Device device)
      : Storage(data, size_bytes, device), allocator_(std::move(allocator)) {}
  ~DeviceStorage() override { allocator_->Release(*this); }
  bool GoesBackInOrder() const override { return true; }

 private:
  const std::shared_ptr<DeviceAllocator> allocator_;
};

StatusOr<std::shared_ptr<DeviceAllocator>> DeviceAllocator::Create(
    std::shared_ptr<StreamPair> streams, DeviceMemoryOptions options) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<MemoryPool> pool, streams->gpu().NewPool());
  return std::shared_ptr<DeviceAllocator>(
      new DeviceAllocator(std::move(streams), std::move(pool), std::move(options)));
}

class DeviceAllocator::Beside final : public tensor::Allocator {
 public:
  explicit Beside(std::shared_ptr<DeviceAllocator> all) : all_(std::move(all)) {}
  StatusOr<std::shared_ptr<tensor::Storage>> Allocate(size_t size_bytes) override {
    return all_->AllocateFrom(nullptr, size_bytes);
  }
  tensor::AllocatorStats Stats() const override { return all_->Stats(); }

 private:
  const std::shared_ptr<DeviceAllocator> all_;
};

std::shared_ptr<tensor::Allocator> DeviceAllocator::BesideRegion() {
  return std::make_shared<Beside>(shared_from_this());
}

StatusOr<std::shared_ptr<tensor::Storage>> DeviceAllocator::Allocate(size_t size_bytes) {
  return AllocateFrom(region_.get(), size_bytes);
}

StatusOr<std::shared_ptr<tensor::Storage>> DeviceAllocator::AllocateFrom(Region* region,
                                                                         size_t size_bytes) {
  if (!IsWithinLimit(size_bytes)) {
    return Exhausted(
        size_bytes, "the limit is " + RoundedSize(options_.limit_bytes) + " (device_memory_bytes)");
  }
  // An address of its own for each, also for empty ones.
  const size_t wanted = std::max<size_t>(size_bytes, 1);
  StatusOr<void*> address = Take(region, wanted);
  if (address.status().code() == StatusCode::kResourceExhausted && !streams_->IsCapturing()) {
    LOCKSTEP_RETURN_IF_ERROR(Collect({Deadline::After(kCollectFor)}));
    address = Take(region, wanted);
  }
  if (address.status().code() == StatusCode::kResourceExhausted) {
    return Exhausted(size_bytes, Message(address.status()));
  }
  LOCKSTEP_RETURN_IF_ERROR(address.status());
  Count(size_bytes);
  auto storage =
      std::make_shared<DeviceStorage>(shared_from_this(), *address, size_bytes,
                                      Device{DeviceType::kCuda, streams_->gpu().facts().index});
  if (streams_->IsCapturing()) streams_->HoldByCapture(storage);
  return storage;
}

StatusOr<void*> DeviceAllocator::Take(Region* region, size_t size_bytes) {
  if (region != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(void* const address, region->Allocate(size_bytes));
    if (address != nullptr) return address;
  }
  return pool_->Allocate(size_bytes, streams_->memory_order());
}

Status DeviceAllocator::GiveBack(void* address, const collective::MemoryRange& range) {
  LOCKSTEP_RETURN_IF_ERROR(streams_->gpu().Bind());
  LOCKSTEP_ASSIGN_OR_RETURN(Stream* const stream, streams_->BeforeFree(range));
  if (region_ != nullptr && region_->Contains(address)) return region_->Free(address, *stream);
  return pool_->Free(address, *stream);
}

bool DeviceAllocator::IsWithinLimit(size_t size_bytes) const {
  std::lock_guard lock(mutex_);
  return options_.limit_bytes == 0 ||
         (size_bytes <= options_.limit_bytes && live_bytes_ <= options_.limit_bytes - size_bytes);
}

void DeviceAllocator::Count(size_t size_bytes) {
  std::lock_guard lock(mutex_);
  live_bytes_ += size_bytes;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  ++live_blocks_;
  ++allocations_;
}

void DeviceAllocator::Release(const tensor::Storage& storage) {
  {
    std::lock_guard lock(mutex_);
    live_bytes_ -= storage.size_bytes();
    --live_blocks_;
  }
  // On whichever thread.
  const Status status = GiveBack(storage.data(), RangeOf(storage));
  // A GPU that is lost gives everything back with the process.
  if (!status.ok()) log::Debug("device memory is not given back: ", Message(status));
}

void DeviceAllocator::MakeRoom(size_t wanted_bytes, size_t least_bytes,
                               const collective::WaitLimit& limit) {
  const auto missing = [&](size_t bytes) -> size_t {
    const StatusOr<MemoryInfo> memory = streams_->gpu().Memory();
    return !memory.ok() || memory->free_bytes >= bytes ? 0 : bytes - memory->free_bytes;
  };
  if (missing(wanted_bytes) == 0) return;
  Status made = pool_->Trim(0);
  const size_t short_of = missing(least_bytes);
  if (made.ok() && short_of > 0 && BytesBeyondTensors() >= short_of) made = Collect(limit);
  if (!made.ok()) log::Debug("free memory is not given back: ", Message(made));
}

size_t DeviceAllocator::BytesBeyondTensors() const {
  const StatusOr<size_t> reserved = pool_->ReservedBytes();
  const size_t in_region = region_ == nullptr ? 0 : region_->live_bytes();
  std::lock_guard lock(mutex_);
  const size_t all = reserved.ok() ? *reserved + in_region : 0;
  return all > live_bytes_ ? all - live_bytes_ : 0;
}

Status DeviceAllocator::Collect(const collective::WaitLimit& limit) {
  const Deadline deadline = limit.deadline.Earlier(Deadline::After(kCollectFor));
  for (Stream* stream : {&streams_->compute(), &streams_->communication()}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto event, streams_->gpu().NewEvent(/*timed=*/false));
    LOCKSTEP_RETURN_IF_ERROR(stream->Record(*event));
    const Status done = Await(*event, {deadline, limit.interrupted}, "what uses its memory");
    if (!done.ok() && done.code() != StatusCode::kDeadlineExceeded) return done;
  }
  return pool_->Trim(0);
}

Status DeviceAllocator::Exhausted(size_t size_bytes, const std::string& reason) const {
  const GpuFacts& gpu = streams_->gpu().facts();
  const StatusOr<MemoryInfo> memory = streams_->gpu().Memory();
  const tensor::AllocatorStats stats = Stats();
  return ResourceExhausted(
      "GPU ", gpu.index, " (", gpu.name, ") cannot allocate ", RoundedSize(size_bytes),
      ": tensors have ", RoundedSize(stats.live_bytes), " in ", stats.live_blocks, " blocks",
      options_.describe_memory_use ? " (" + options_.describe_memory_use() + ")" : "",
      memory.ok() ? "; " + RoundedSize(memory->free_bytes) + " of the GPU's " +
                        RoundedSize(memory->total_bytes) + " are free"
                  : "",
      "; ", reason);
}

tensor::AllocatorStats DeviceAllocator::Stats() const {
  const StatusOr<size_t> reserved = pool_->ReservedBytes();
  std::lock_guard lock(mutex_);
  return {.live_bytes = live_bytes_,
          .peak_bytes = peak_bytes_,
          .reserved_bytes = (reserved.ok() ? *reserved : live_bytes_) +
                            (region_ == nullptr ? 0 : region_->size_bytes()),
          .live_blocks = live_blocks_,
          .allocations = allocations_};
}

}  // namespace lockstep::cuda
