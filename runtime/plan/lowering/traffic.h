// Traffic: how many bytes enter and leave each rank and each node. Cost: what that takes.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/plan/lowering/exchange.h"
#include "runtime/plan/lowering/topology.h"

namespace lockstep::plan {

struct Flux {
  double in = 0;
  double out = 0;
  double Busiest() const { return in > out ? in : out; }
};

// Bytes. A rank sends and receives at the same time, so its busier direction counts.
struct Traffic {
  std::vector<Flux> ranks;    // by rank, as far as any has a part in it
  std::map<int, Flux> nodes;  // what crosses a network; nothing within a node

  double BusiestRank() const;
  double BusiestNode() const;

  void Add(const Traffic& other);
  Flux& Of(Rank rank);
};

// These add what a collective among `team` moves, as the backends do it: each rank fetches what it
// is to combine from all others of its node; what ranks of another node are to have, those of a
// node combine in equal slices, and send it there. `parts`: bytes of each member, of what is
// gathered or left when it is scattered.
void AddAllGather(absl::Span<const Rank> team, absl::Span<const double> parts,
                  const Topology& topology, Traffic& traffic);
void AddReduceScatter(absl::Span<const Rank> team, absl::Span<const double> parts,
                      const Topology& topology, Traffic& traffic);
void AddAllReduce(absl::Span<const Rank> team, double bytes, const Topology& topology,
                  Traffic& traffic);
void AddRound(const std::vector<Piece>& round, double element_bytes, const Topology& topology,
              Traffic& traffic);

// What moving bytes takes: a latency for each step, and a time for each byte of the busiest rank,
// of the busiest node's network, and of copies that a rank makes (Hockney's model, per resource).
// docs/plans.md has where the numbers come from.
struct CostModel {
  double step_us = 3;                       // of ranks that share memory
  double network_step_us = 30;              // of ranks on several nodes
  double us_per_byte = 1.0 / 8000;          // 8 GB/s between two ranks of a node
  double network_us_per_byte = 1.0 / 1000;  // 1 GB/s into or out of a node
  double copy_us_per_byte = 1.0 / 8000;
  // Steps go on one after the other, and each takes as long as its busiest rank and node do.
  // Otherwise what these move in all steps together counts, whenever that is.
  bool steps_wait = true;

  // The latency of a step with that traffic.
  double LatencyOf(const Traffic& traffic) const;
  // Of the bytes of one step, or of several that do not wait.
  double MicrosecondsFor(const Traffic& traffic) const;
};

}  // namespace lockstep::plan
