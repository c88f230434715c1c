#include "services/worker/report/plan_cache_counts.h"

namespace lockstep::worker {
namespace {

constexpr std::array<const char*, 2> kCacheNames = {"programs", "reshards"};

}  // namespace

void PlanCacheCounts::Set(Cache cache, const plan::CacheUse& use) {
  Counts& counts = caches_[static_cast<size_t>(cache)];
  counts.hits.store(use.hits, std::memory_order_relaxed);
  counts.misses.store(use.misses, std::memory_order_relaxed);
  counts.evictions.store(use.evictions, std::memory_order_relaxed);
  counts.entries.store(use.entries, std::memory_order_relaxed);
  counts.bytes.store(use.bytes, std::memory_order_relaxed);
}

void PlanCacheCounts::Tell(metrics::Families& families) const {
  static_assert(kCacheNames.size() == kCaches);
  // Samples of one family come one after the other.
  const auto tell = [&](auto add, const char* name, const char* help,
                        std::atomic<uint64_t> Counts::*count) {
    for (size_t i = 0; i < kCaches; ++i) {
      const uint64_t value = (caches_[i].*count).load(std::memory_order_relaxed);
      (families.*add)(name, help, static_cast<double>(value), {{"cache", kCacheNames[i]}});
    }
  };
  using metrics::Families;
  tell(&Families::Counter, "lockstep_plan_cache_hits_total",
       "Uses of a program or reshard that was lowered before.", &Counts::hits);
  tell(&Families::Counter, "lockstep_plan_cache_misses_total",
       "Uses of a program or reshard that had to be lowered.", &Counts::misses);
  tell(&Families::Counter, "lockstep_plan_cache_evictions_total",
       "Lowered programs and reshards that were forgotten for want of room.", &Counts::evictions);
  tell(&Families::Gauge, "lockstep_plan_cache_entries",
       "Lowered programs and reshards that are kept.", &Counts::entries);
  tell(&Families::Gauge, "lockstep_plan_cache_bytes", "Memory that these take, about.",
       &Counts::bytes);
}

}  // namespace lockstep::worker
