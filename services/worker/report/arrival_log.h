// How long this rank spent in its last collectives, for the controller to compare with the others.
//
// All members of an allreduce, say, leave it together. So who spent the least time in it came last,
// and how much longer another was in it is how much earlier that one came. No clock is compared
// with another's (docs/adr/0012-skew-without-common-clocks.md).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/ids.h"

namespace lockstep::worker {

struct CollectiveTime {
  SessionId session;
  Generation generation;
  uint64_t command = 0;
  uint16_t kind = 0;   // wire::CollectiveKind
  uint16_t ranks = 0;  // how many took part, ...
  Rank first = 0;      // ... the lowest of them
  std::chrono::nanoseconds spent{0};
};

// Holds what happens between two heartbeats. Where that is too much, it keeps one in 2, 4, 8, ...,
// chosen by number, so that every rank keeps the same ones, or some of them.
//
// Threads: Note() belongs to the executing thread, Take() to one other.
class ArrivalLog {
 public:
  static constexpr size_t kCapacity = 64;

  void Note(const CollectiveTime& time);
  // All since the last call.
  std::vector<CollectiveTime> Take();

 private:
  static constexpr int kMostLevels = 20;

  std::array<CollectiveTime, kCapacity> ring_;
  std::atomic<uint64_t> written_{0};
  std::atomic<uint64_t> taken_{0};
  std::atomic<uint64_t> takes_{0};
  // The executing thread's: one in 2^level_ is kept, which grows once between two Take()s.
  int level_ = 0;
  bool raised_ = false;
  uint64_t seen_taken_ = 0;
  uint64_t seen_takes_ = 0;
};

}  // namespace lockstep::worker
