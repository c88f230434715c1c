#include "services/worker/report/fragment_counts.h"

namespace lockstep::worker {
namespace {

template <typename T>
double Value(const std::atomic<T>& count) {
  return static_cast<double>(count.load(std::memory_order_relaxed));
}

}  // namespace

void FragmentCounts::Set(const ObjectCacheUse& use) {
  memory_hits_.store(use.memory_hits, std::memory_order_relaxed);
  disk_hits_.store(use.disk_hits, std::memory_order_relaxed);
  compiles_.store(use.compiles, std::memory_order_relaxed);
  failures_.store(use.failures, std::memory_order_relaxed);
  compiling_millis_.store(use.compiling.count(), std::memory_order_relaxed);
  loaded_.store(use.loaded, std::memory_order_relaxed);
  loaded_bytes_.store(use.loaded_bytes, std::memory_order_relaxed);
}

void FragmentCounts::Tell(metrics::Families& families) const {
  constexpr char kHits[] = "lockstep_fragment_cache_hits_total";
  constexpr char kHitsHelp[] = "Fragments that were found compiled: in memory, or on disk.";
  constexpr double kMillisPerSecond = 1000;
  families.Counter("lockstep_fragment_compiles_total",
                   "Fragments that this worker has had compiled, also those that failed.",
                   Value(compiles_));
  families.Counter(kHits, kHitsHelp, Value(memory_hits_), {{"where", "memory"}});
  families.Counter(kHits, kHitsHelp, Value(disk_hits_), {{"where", "disk"}});
  families.Counter("lockstep_fragment_failures_total",
                   "Fragments that could not be had, for whatever reason.", Value(failures_));
  families.Counter("lockstep_fragment_compile_seconds_total",
                   "How long the fragment compiler ran for this worker.",
                   Value(compiling_millis_) / kMillisPerSecond);
  families.Counter("lockstep_fragment_input_moves_total",
                   "Arguments of fragments that did not lie as they were wanted, and were moved.",
                   Value(input_moves_));
  families.Counter("lockstep_fragment_input_bytes_total",
                   "Bytes of them that this worker did not have before.", Value(input_bytes_));
  families.Gauge("lockstep_fragments_loaded", "Compiled fragments that are kept in memory.",
                 Value(loaded_));
  families.Gauge("lockstep_fragments_loaded_bytes", "Bytes of these.", Value(loaded_bytes_));
}

}  // namespace lockstep::worker
