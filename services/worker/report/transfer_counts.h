// What was moved: by operation and backend, with sizes and bus bandwidths as nccl-tests define them
// (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "schemas/control.capnp.h"
#include "services/metrics/counters.h"
#include "services/metrics/families.h"

namespace lockstep::worker {

// What a collective was, for counting it.
struct CollectiveFacts {
  std::string_view backend = {};  // empty: this rank had no part in it
  int ranks = 0;                  // that took part, ...
  Rank first = 0;                 // ... the lowest of them
  // The operation's size: of what one rank has where all have as much of the same (allreduce,
  // reduce, broadcast, all-to-all, messages), else of what all have together.
  uint64_t bytes = 0;
};

// What one collective has cost this rank.
struct CollectiveCost {
  uint64_t bus_bytes = 0;
  std::chrono::nanoseconds duration{0};
};

// One operation over one backend.
//
// Threads: Add() belongs to one, the rest is safe from any.
class TransferCounts {
 public:
  // Returns the bus bytes.
  uint64_t Add(uint64_t bytes, double bus_factor, std::chrono::nanoseconds duration) {
    const double bus_bytes = static_cast<double>(bytes) * bus_factor;
    bytes_.Add(bytes);
    bus_bytes_.Add(static_cast<uint64_t>(bus_bytes));
    seconds_.Observe(duration);
    last_bandwidth_.store(
        duration.count() > 0 ? bus_bytes * 1e9 / static_cast<double>(duration.count()) : 0,
        std::memory_order_relaxed);
    return static_cast<uint64_t>(bus_bytes);
  }

  uint64_t bytes() const { return bytes_.value(); }
  uint64_t bus_bytes() const { return bus_bytes_.value(); }
  const metrics::DurationHistogram& seconds() const { return seconds_; }
  // Bytes a second of the last one.
  double last_bandwidth() const { return last_bandwidth_.load(std::memory_order_relaxed); }

 private:
  metrics::Counter bytes_;
  metrics::Counter bus_bytes_;
  metrics::DurationHistogram seconds_;
  std::atomic<double> last_bandwidth_{0};
};

struct NamedTransfer {
  std::string operation;  // "allreduce", "reduce_scatter"
  const char* backend;
  const TransferCounts* counts;
};
// Tells of those that have happened.
void TellTransfers(const std::vector<NamedTransfer>& transfers, metrics::Families& families);

// The collectives of one worker.
//
// Threads: Add() belongs to one, List() is safe from any.
class CollectiveCounts {
 public:
  // Returns what crossed the bus.
  uint64_t Add(wire::CollectiveKind kind, const CollectiveFacts& facts,
               std::chrono::nanoseconds duration);
  std::vector<NamedTransfer> List() const;

  // What crosses the bus of each rank for one byte of an operation's size.
  static double BusFactor(wire::CollectiveKind kind, int ranks);

 private:
  static constexpr size_t kBackends = 9;
  static size_t BackendOf(std::string_view backend);

  std::array<std::array<TransferCounts, kBackends>, kOperationCount> counts_;
};

}  // namespace lockstep::worker
