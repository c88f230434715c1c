// Memory of a GPU that was allocated as one, for instance because it is registered with a network.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/cuda/stream_pair.h"
#include "runtime/tensor/block_pool.h"

namespace lockstep::cuda {

// Hands out parts of it, and takes them back, in the order of the compute stream: as a
// MemoryPool does, but never more than there is.
//
// Threads: safe. Ownership: keeps what owns the memory.
class Region {
 public:
  // `memory` is aligned to kAlignment; `owner` keeps it.
  Region(std::shared_ptr<StreamPair> streams, collective::MemoryRange memory,
         std::shared_ptr<void> owner);

  // Null if there is no room now. The address is aligned to kAlignment.
  StatusOr<void*> Allocate(size_t size_bytes);
  bool Contains(const void* address) const;
  // `stream` is one of the two, in whose order the memory is not used any more.
  Status Free(void* address, Stream& stream);

  size_t size_bytes() const { return memory_.size_bytes; }
  size_t live_bytes() const;

  static constexpr size_t kAlignment = 256;

 private:
  // Taken back when communication has come so far.
  struct Pending {
    std::shared_ptr<Event> until;
    tensor::BlockPool::Block* block;
  };
  // With mutex_ held.
  Status TakeBackWhatIsDone();

  const std::shared_ptr<StreamPair> streams_;
  const collective::MemoryRange memory_;
  const std::shared_ptr<void> owner_;
  mutable std::mutex mutex_;  // guards what follows
  tensor::BlockPool blocks_;
  std::map<const void*, tensor::BlockPool::Block*> live_;
  std::deque<Pending> pending_;
  std::vector<std::shared_ptr<Event>> events_;  // that are not used
};

}  // namespace lockstep::cuda
