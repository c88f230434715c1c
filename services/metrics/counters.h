// What a thread counts while it works: no lock, no allocation, nothing that waits for a reader.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::metrics {

// Threads: Add() belongs to one, the rest is safe from any.
class Counter {
 public:
  // There is one writer, so no atomic addition is needed.
  void Add(uint64_t more = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  // For a counter that several threads add to, with this alone.
  void AddShared(uint64_t more = 1) { value_.fetch_add(more, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// How often something took how long. The buckets are the same for all, so that they can be added
// up: 1 us, 4 us, 16 us, ... 268 s, each four times the one before.
//
// Threads: Observe() belongs to one, the rest is safe from any. Readers may see an observation in
// one number and not yet in another.
class DurationHistogram {
 public:
  static constexpr size_t kBounds = 15;

  // The upper bound of a bucket, inclusive.
  static constexpr double BoundSeconds(size_t bucket) {
    return static_cast<double>(uint64_t{1} << (2 * bucket)) / 1e6;
  }
  // kBounds: longer than all bounds.
  static constexpr size_t BucketOf(std::chrono::nanoseconds duration) {
    const auto nanos = static_cast<uint64_t>(duration.count() > 0 ? duration.count() : 0);
    const uint64_t micros = (nanos + 999) / 1000;
    if (micros <= 1) return 0;
    const size_t bucket = static_cast<size_t>(std::bit_width(micros - 1) + 1) / 2;
    return bucket < kBounds ? bucket : kBounds;
  }

  void Observe(std::chrono::nanoseconds duration) {
    buckets_[BucketOf(duration)].Add();
    if (duration.count() > 0) sum_nanos_.Add(static_cast<uint64_t>(duration.count()));
  }

  // Those in this bucket alone.
  uint64_t CountOf(size_t bucket) const { return buckets_[bucket].value(); }
  uint64_t Count() const {
    uint64_t count = 0;
    for (const Counter& bucket : buckets_) count += bucket.value();
    return count;
  }
  double SumSeconds() const { return static_cast<double>(sum_nanos_.value()) / 1e9; }

 private:
  std::array<Counter, kBounds + 1> buckets_;
  Counter sum_nanos_;
};

// What is counted by code has a counter for each, and the label `code`.

// The codes there are; the first is OK.
inline constexpr size_t kCodes = 17;

inline size_t IndexOf(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kCodes ? index : static_cast<size_t>(StatusCode::kUnknown);
}
// "INVALID_ARGUMENT", as in docs/errors.md.
inline std::string NameOf(size_t index) {
  return absl::StatusCodeToString(static_cast<StatusCode>(index));
}

}  // namespace lockstep::metrics
