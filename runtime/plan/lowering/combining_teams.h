// Teams: which ranks combine partial values together.
//
// Pure functions. Threads: any.
#pragma once

#include <vector>

#include "runtime/base/ids.h"
#include "runtime/plan/box.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/topology.h"

namespace lockstep::plan {

// The partial values of a tile. Each team has all layers that are combined, one on each of its
// ranks; replicas are in other teams.
struct PartialTile {
  Box box;
  int layer = 0;  // Layout::LayerAt() of what they are combined to: other partial values may stay
  std::vector<std::vector<Rank>> teams;
};

// Of the partial values of `from` that `to` has no more. Replicas are paired to teams on one node
// where there are all layers, else of as few nodes as a walk over the layers finds.
std::vector<PartialTile> PartialTilesOf(const Layout& from, const Layout& to,
                                        const Topology& topology);

}  // namespace lockstep::plan
