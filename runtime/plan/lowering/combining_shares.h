// Shares: which ranks combine which elements of partial values, so that all have as little to do as
// may be.
//
// Pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/plan/box.h"
#include "runtime/plan/lowering/combining_teams.h"
#include "runtime/plan/lowering/exchange.h"
#include "runtime/plan/lowering/topology.h"

namespace lockstep::plan {

// A box of one tile, which ranks need combined.
struct Demand {
  size_t tile = 0;  // index
  Box box;
  std::vector<Rank> needers;
  // How many of its elements each rank of the tile's teams combines, by team and place in it.
  std::vector<std::vector<int64_t>> shares = {};
};

// Sets the shares, so that the busiest rank and the busiest node have as little to do as a walk
// over the demands finds, and some more over what it found. `spread`: how what is combined comes to
// the needers. Bytes of ranks and of nodes count alike: the cost model is asked about what comes
// out. Returns how many ranks were considered.
int64_t ShareOut(const std::vector<PartialTile>& tiles, std::vector<Demand>& demands,
                 const Topology& topology, Spread spread);

}  // namespace lockstep::plan
