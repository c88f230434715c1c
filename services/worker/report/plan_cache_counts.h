// What the caches of plans have done, and hold, as the metrics tell it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/plan/recently_used.h"
#include "services/metrics/families.h"

namespace lockstep::worker {

// Threads: Set() belongs to one, Tell() is safe from any.
class PlanCacheCounts {
 public:
  enum class Cache : size_t { kPrograms, kReshards };

  void Set(Cache cache, const plan::CacheUse& use);
  void Tell(metrics::Families& families) const;

 private:
  struct Counts {
    std::atomic<uint64_t> hits{0};
    std::atomic<uint64_t> misses{0};
    std::atomic<uint64_t> evictions{0};
    std::atomic<uint64_t> entries{0};
    std::atomic<uint64_t> bytes{0};
  };
  static constexpr size_t kCaches = 2;

  std::array<Counts, kCaches> caches_;
};

}  // namespace lockstep::worker
