// What was done to have fragments compiled, as the metrics tell it.
#pragma once

#include <atomic>
#include <cstdint>

#include "services/metrics/families.h"
#include "services/worker/fragment/object_cache.h"

namespace lockstep::worker {

// Threads: Set() belongs to one, Tell() is safe from any.
class FragmentCounts {
 public:
  void Set(const ObjectCacheUse& use);
  void Tell(metrics::Families& families) const;

 private:
  std::atomic<uint64_t> memory_hits_{0};
  std::atomic<uint64_t> disk_hits_{0};
  std::atomic<uint64_t> compiles_{0};
  std::atomic<uint64_t> failures_{0};
  std::atomic<int64_t> compiling_millis_{0};
  std::atomic<uint64_t> loaded_{0};
  std::atomic<uint64_t> loaded_bytes_{0};
};

}  // namespace lockstep::worker
