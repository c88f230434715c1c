// Shares: which ranks combine which elements of partial values, so that all have as little to do as
// may be.
//
// Pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/plan/box.h"
#include "runtime/plan/exchange.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/topology.h"

namespace lockstep::plan {

// The partial values of a tile. Each team has all layers, one on each of its ranks; replicas are in
// other teams.
struct PartialTile {
  Box box;
  std::vector<std::vector<Rank>> teams;
};

// Of a layout with partial values. Replicas are paired to teams of as few nodes as a walk over the
// layers finds.
std::vector<PartialTile> PartialTilesOf(const Layout& layout, const Topology& topology);

// A box of one tile, which ranks need combined.
struct Demand {
  size_t tile = 0;  // index
  Box box;
  std::vector<Rank> needers;
  // How many of its elements each rank of the tile's teams combines, by team and place in it.
  std::vector<std::vector<int64_t>> shares = {};
};

// Sets the shares. `spread`: how what is combined comes to the needers. Bytes of ranks and of nodes
// count alike: the cost model is asked about what comes out.
void ShareOut(const std::vector<PartialTile>& tiles, std::vector<Demand>& demands,
              const Topology& topology, Spread spread);

}  // namespace lockstep::plan
