// Move: one step on the way from a layout to another, what it moves, and how long that takes.
//
// Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/combination.h"
#include "runtime/plan/lowering/exchange.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/lowering/traffic.h"

namespace lockstep::plan {

// The same on all ranks.
struct Move {
  enum class Kind : uint8_t {
    kExchange,       // any layout to any other with as many layers
    kAllGather,      // shards of `axes` become replicas
    kReduceScatter,  // partial values of `axes` become shards
    kAllReduce,      // partial values of `axes` become replicas
    kCombine,        // partial values of all axes become any layout without
    kMakePartial,    // what a rank lacks is filled with what changes no result
  };
  Kind kind = Kind::kExchange;
  Layout to;
  // Of a collective: the axes whose slices are its teams; of the mesh of `to`, but for an allgather
  // of that of the layout before.
  std::vector<int> axes;
  std::shared_ptr<const Exchange> exchange = nullptr;        // of kExchange
  std::shared_ptr<const Combination> combination = nullptr;  // of kCombine

  // "allgather along x", "slice", "combine where needed", "exchange in 3 rounds", ...
  // `before`: the layout that it begins with.
  std::string Describe(const Layout& before) const;
};

// What one move costs, or several in a row.
struct MoveCost {
  Traffic traffic;
  double overhead_us = 0;  // latencies, and what is copied
  double steps_us = 0;     // what the bytes of each step take, one after the other

  void Add(const MoveCost& next);

  // By the cost model.
  double Microseconds(const CostModel& costs) const;
};

// Of `move`, from the layout before it.
MoveCost CostOf(const Move& move, const Layout& from, const Topology& topology,
                const CostModel& costs);

}  // namespace lockstep::plan
