// What was done to have fragments compiled, and their arguments where they run, as the metrics tell
// it.
#pragma once

#include <atomic>
#include <cstdint>

#include "services/metrics/families.h"
#include "services/worker/fragment/object_cache.h"

namespace lockstep::worker {

// Threads: Set() and AddInput() belong to one, Tell() is safe from any.
class FragmentCounts {
 public:
  void Set(const ObjectCacheUse& use);
  // An argument had to be moved, and so many bytes of it came to this worker.
  void AddInput(uint64_t bytes) {
    input_moves_.fetch_add(1, std::memory_order_relaxed);
    input_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void Tell(metrics::Families& families) const;

 private:
  std::atomic<uint64_t> memory_hits_{0};
  std::atomic<uint64_t> disk_hits_{0};
  std::atomic<uint64_t> compiles_{0};
  std::atomic<uint64_t> failures_{0};
  std::atomic<int64_t> compiling_millis_{0};
  std::atomic<uint64_t> input_moves_{0};
  std::atomic<uint64_t> input_bytes_{0};
  std::atomic<uint64_t> loaded_{0};
  std::atomic<uint64_t> loaded_bytes_{0};
};

}  // namespace lockstep::worker
