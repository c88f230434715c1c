// Traffic: how many bytes enter and leave each rank and each node. Cost: what that takes.
#pragma once

#include <cstdint>
#include <map>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/plan/exchange.h"
#include "runtime/plan/topology.h"

namespace lockstep::plan {

struct Flux {
  double in = 0;
  double out = 0;
  double Busiest() const { return in > out ? in : out; }
};

// Bytes. A rank sends and receives at the same time, so its busier direction counts.
struct Traffic {
  std::map<Rank, Flux> ranks;
  std::map<int, Flux> nodes;  // what crosses a network; nothing within a node

  double BusiestRank() const;
  double BusiestNode() const;

  void Add(const Traffic& other);
};

// What the algorithms of the best backends move, as nccl-tests counts it (doc/PERFORMANCE.md
// there): in a ring over the team's ranks, and where they are of several nodes, in one over these.
// `parts`: bytes of each member, of what is gathered or left when it is scattered.
Traffic AllGatherTraffic(absl::Span<const Rank> team, absl::Span<const double> parts,
                         const Topology& topology);
Traffic ReduceScatterTraffic(absl::Span<const Rank> team, absl::Span<const double> parts,
                             const Topology& topology);
Traffic AllReduceTraffic(absl::Span<const Rank> team, double bytes, const Topology& topology);
Traffic RoundTraffic(const std::vector<Piece>& round, double element_bytes,
                     const Topology& topology);

// What moving bytes takes: a latency for each step, and a time for each byte of the busiest rank,
// of the busiest node's network, and of copies that a rank makes (Hockney's model, per resource).
// docs/plans.md has where the numbers come from.
struct CostModel {
  double step_us = 3;                       // of ranks that share memory
  double network_step_us = 30;              // of ranks on several nodes
  double us_per_byte = 1.0 / 8000;          // 8 GB/s between two ranks of a node
  double network_us_per_byte = 1.0 / 1000;  // 1 GB/s into or out of a node
  double copy_us_per_byte = 1.0 / 8000;

  // Of one step with that traffic, in which the busiest rank copies so much.
  double MicrosecondsFor(const Traffic& traffic, double copied_bytes) const;
};

}  // namespace lockstep::plan
