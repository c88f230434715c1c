// Who shares memory with whom: the nodes of a world.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/rendezvous.h"

namespace lockstep::worker {

// What a rank can map of the others' memory.
struct MappedRanks {
  std::vector<bool> ranks;  // by rank
  // One that it cannot map, and why; -1: it can map all.
  Rank example = -1;
  std::string why;
};

// As ranks tell it each other: "0-1,3 2 it is gone" says who is reached, an example of who is not,
// and why. In ranges, because every rank is sent this of every other.
std::string ToText(const MappedRanks& mapped);
// None: the text makes no sense in a world of that size.
std::optional<MappedRanks> FromText(const std::string& text, size_t size);

struct Topology {
  // Ranks that all map each other's arenas, in rank order; nodes by their first rank.
  std::vector<std::vector<Rank>> nodes;
  // Why there is more than one, by an example; empty if there is one.
  std::string why_apart;

  // The node of a rank, which is in one.
  const std::vector<Rank>& NodeOf(Rank rank) const;
  // The number of each rank's node, by rank.
  std::vector<int> ByRank() const;
};

// Every rank joins the first node of which it and all members map each other: the same on all
// ranks, for the same `mapped`, which is by rank.
Topology DrawTopology(const std::vector<MappedRanks>& mapped);

// Tries to map every rank's arena, and tells all others what came of it. `segments` are the arenas'
// names, by rank. Errors are those of Rendezvous::Exchange().
StatusOr<std::vector<MappedRanks>> ExchangeMappedRanks(const std::vector<std::string>& segments,
                                                       collective::Rendezvous& rendezvous,
                                                       const std::atomic<bool>& cancelled,
                                                       Deadline deadline);

}  // namespace lockstep::worker
