// The memory of a worker's device tensors.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "runtime/cuda/await.h"
#include "runtime/cuda/region.h"
#include "runtime/cuda/stream_pair.h"
#include "runtime/tensor/storage.h"

namespace lockstep::cuda {

struct DeviceMemoryOptions {
  // Most bytes that tensors may have at a time; 0: as many as there are.
  size_t limit_bytes = 0;
  // Says what holds the memory, for the error that there is none left. May be empty. Called by the
  // thread that allocates.
  std::function<std::string()> describe_memory_use = {};
};

// Hands out memory in the order of the compute stream: a block may be used there at once,
// although its last user is not done, and what is freed is handed out again without a word to the
// driver.
//
// Threads: as Allocator says. Ownership: storages keep the allocator, and with it the streams,
// alive.
class DeviceAllocator final : public tensor::Allocator,
                              public std::enable_shared_from_this<DeviceAllocator> {
 public:
  static StatusOr<std::shared_ptr<DeviceAllocator>> Create(std::shared_ptr<StreamPair> streams,
                                                           DeviceMemoryOptions options = {});

  // From now on memory comes from there first, as long as there is room. Before anything is
  // allocated.
  void UseFirst(std::shared_ptr<Region> region) { region_ = std::move(region); }
  // Null: there is none.
  const Region* region() const { return region_.get(); }
  // Hands out the same memory, but none of the region.
  std::shared_ptr<tensor::Allocator> BesideRegion();

  // Where the memory comes from, for what works beside tensors: it counts as none of theirs.
  const std::shared_ptr<MemoryPool>& pool() const { return pool_; }

  // For libraries that allocate by themselves: where the GPU has less than `wanted_bytes` free,
  // gives back to it what tensors do not use. Where it has less than `least_bytes` even then, and
  // would have them if all work under way had freed its memory, waits for that: some seconds at
  // most, and within `limit`.
  void MakeRoom(size_t wanted_bytes, size_t least_bytes, const collective::WaitLimit& limit);

  // What is allocated by a thread that captures is kept by the graph, too. When there is none left,
  // waits for what is under way to free its memory, some seconds at most,
  // before it says kResourceExhausted.
  StatusOr<std::shared_ptr<tensor::Storage>> Allocate(size_t size_bytes) override;
  tensor::AllocatorStats Stats() const override;

 private:
  class DeviceStorage;

  DeviceAllocator(std::shared_ptr<StreamPair> streams, std::shared_ptr<MemoryPool> pool,
                  DeviceMemoryOptions options)
      : streams_(std::move(streams)), pool_(std::move(pool)), options_(std::move(options)) {}
  class Beside;
  StatusOr<std::shared_ptr<tensor::Storage>> AllocateFrom(Region* region, size_t size_bytes);
  StatusOr<void*> Take(Region* region, size_t size_bytes);
  Status GiveBack(void* address, const collective::MemoryRange& range);
  void Release(const tensor::Storage& storage);
  // Waits for both streams, some seconds at most, and gives what is free back to the GPU.
  Status Collect(const collective::WaitLimit& limit);
  // What the pool has beyond tensors: it is free, or some work has yet to let go of it.
  size_t BytesBeyondTensors() const;
  Status Exhausted(size_t size_bytes, const std::string& reason) const;
  bool IsWithinLimit(size_t size_bytes) const;
  void Count(size_t size_bytes);

  const std::shared_ptr<StreamPair> streams_;
  const std::shared_ptr<MemoryPool> pool_;
  const DeviceMemoryOptions options_;
  std::shared_ptr<Region> region_;
  mutable std::mutex mutex_;  // guards what follows
  size_t live_bytes_ = 0;
  size_t peak_bytes_ = 0;
  size_t live_blocks_ = 0;
  size_t allocations_ = 0;
};

}  // namespace lockstep::cuda
