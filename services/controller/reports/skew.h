// Which ranks come late to collectives, and by how much: from how long each was in them.
//
// All members of an allreduce leave it together. So the rank that was in it for the shortest time
// came last, and the skew is how much longer the one was in it that came first. No two clocks are
// compared (docs/adr/0012-skew-without-common-clocks.md).
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "schemas/membership.capnp.h"
#include "services/metrics/counters.h"
#include "services/metrics/families.h"

namespace lockstep::controller {

// Threads: safe.
class Skew {
 public:
  // Collectives of which some members have yet to tell; older ones are given up.
  static constexpr size_t kMostPending = 8192;

  explicit Skew(int workers) : workers_(workers) {
    lateness_.ranks.resize(static_cast<size_t>(workers));
  }

  // What a heartbeat of `rank` says.
  void Take(Rank rank, capnp::List<wire::CollectiveTime>::Reader times);

  void Tell(metrics::Families& families) const;

  struct Late {
    uint64_t times = 0;              // that a rank came last, ...
    std::chrono::nanoseconds by{0};  // ... and how long after the first, added up
  };
  struct Lateness {
    uint64_t compared = 0;  // collectives of which all members have told
    std::vector<Late> ranks;
  };
  Lateness Compared() const;

 private:
  struct Key {
    uint32_t session = 0;
    uint32_t generation = 0;
    uint64_t command = 0;
    Rank first = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Pending {
    int missing = 0;
    Rank last = 0;  // in it for the shortest time so far
    std::chrono::nanoseconds shortest{0};
    std::chrono::nanoseconds longest{0};
  };
  struct Operation {
    metrics::DurationHistogram skew;
    std::vector<uint64_t> last;  // by rank: how often it came last
  };

  // With mutex_ held.
  void Add(Rank rank, wire::CollectiveTime::Reader time, Operation& operation);

  const int workers_;
  mutable std::mutex mutex_;
  std::map<Key, Pending> pending_;
  std::deque<Key> order_;                              // oldest first; some are complete by now
  std::array<Operation, kOperationCount> operations_;  // by kind; those left together count
  Lateness lateness_;                                  // of all operations
};

}  // namespace lockstep::controller
