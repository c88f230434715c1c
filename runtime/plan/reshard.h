// Lowering a reshard: from one layout of a tensor to another, as the cheapest sequence of moves.
//
// What is tried, and how the rows of the table in docs/plans.md come out of it:
//   - partial values are combined first: by an allreduce, or a reduce-scatter along any dimension;
//   - then what is missing is gathered within the mesh, or exchanged between any two meshes,
//   straight
//     or forwarded, or exchanged to a layout with more shards, which the new mesh gathers;
//   - new partial values are made last, from a layout in which each element is on one coordinate.
// The cost model chooses. Nothing here touches data, a device or a socket.
//
// Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/exchange.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/topology.h"
#include "runtime/plan/traffic.h"

namespace lockstep::plan {

// One step on the way from a layout to another, the same on all ranks.
struct Move {
  enum class Kind : uint8_t {
    kExchange,       // any layout to any other with as many layers
    kAllGather,      // shards of `axes` become replicas
    kReduceScatter,  // partial values of `axes` become shards
    kAllReduce,      // partial values of `axes` become replicas
    kMakePartial,    // what a rank lacks is filled with what changes no result
  };
  Kind kind = Kind::kExchange;
  Layout to;
  // Of a collective: the axes whose slices are its teams; of the mesh of `to`, but for an allgather
  // of that of the layout before.
  std::vector<int> axes;
  std::shared_ptr<const Exchange> exchange;  // of kExchange

  // "allgather along x", "slice", "all-to-all", "exchange in 3 rounds", ...
  // `before`: the layout that it begins with.
  std::string Describe(const Layout& before) const;
};

struct Reshard {
  Layout from;
  Layout to;
  std::vector<Move> moves;  // none: every rank has what it needs, where it needs it
  double cost_us = 0;       // by the cost model

  Traffic TrafficIn(const Topology& topology) const;
};

// The errors of CheckReshard().
StatusOr<Reshard> LowerReshard(const Layout& from, const Layout& to, const Topology& topology,
                               const CostModel& costs);

// What `move` moves, from the layout before it.
Traffic TrafficOf(const Move& move, const Layout& from, const Topology& topology);

}  // namespace lockstep::plan
