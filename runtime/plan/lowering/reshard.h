// Lowering a reshard: from one layout of a tensor to another, as the cheapest sequence of moves.
//
// What is tried, and how the rows of the table in docs/plans.md come out of it:
//   - partial values are combined first: by an allreduce, or a reduce-scatter along any dimension;
//   - then what is missing is gathered within the mesh, or exchanged between any two meshes,
//     straight or forwarded, or exchanged to a layout with more shards, which the new mesh gathers;
//   - or partial values are combined by ranks that are chosen for it, and exchanged from there;
//   - new partial values are made last, from a layout in which each element is on one coordinate.
// The cost model chooses. The more dimensions and axes, the more ways there are: when many were
// looked at, the best of these is taken. Nothing here touches data, a device or a socket.
//
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/move.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/lowering/traffic.h"

namespace lockstep::plan {

class Teams;

struct Reshard {
  Layout from;
  Layout to;
  std::vector<Move> moves;  // none: every rank has what it needs, where it needs it
  double cost_us = 0;       // by the cost model
  // Who meets in each collective, by its number (teams.h).
  std::vector<std::shared_ptr<const Teams>> teams = {};
  // What it took to find it: ranks looked at, and pieces of exchanges. The same on all ranks.
  int64_t effort = 0;

  // "slice, allgather along x"; "copy", if nothing moves
  std::string Describe() const;
  Traffic TrafficIn(const Topology& topology) const;
};

// Reshard::effort that one reshard or collective may take: a few seconds' work, which other
// sessions wait for. An all-to-all of a thousand ranks takes a quarter of it.
constexpr int64_t kMaxReshardEffort = int64_t{1} << 23;

// The errors of CheckReshard(); kResourceExhausted: no way was found with `most_effort`.
StatusOr<Reshard> LowerReshard(const Layout& from, const Layout& to, const Topology& topology,
                               const CostModel& costs, int64_t most_effort = kMaxReshardEffort);

}  // namespace lockstep::plan
