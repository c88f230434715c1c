// Lower bounds of combining: what has to move for the partial values of one tile.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/plan/bounds/needed_traffic.h"
#include "runtime/plan/bounds/node_cover.h"
#include "runtime/plan/lowering/topology.h"

namespace lockstep::plan {

// Who holds the partial values of a tile.
struct PartialHolders {
  // Each slice has one rank for each layer; slices are replicas of each other.
  PartialHolders(const std::vector<std::vector<Rank>>& slices, const Topology& topology);

  size_t layers = 0;
  std::map<Rank, int> layer_of;
  NodeLayers on_node;
  NodeCover cover;  // of more than one layer
};

// What leaves those that hold partial values of a tile, in all; bytes.
struct LeavingPartials {
  double ranks = 0;
  double nodes = 0;
  // For what is combined on the node that needs it: by node, of each layer.
  std::map<int, std::map<int, double>> of_layers;
};

// Adds what has to move if each of the `ranks` needs so many bytes of the tile, combined.
void AddCombining(const PartialHolders& source, absl::Span<const Rank> ranks, double bytes,
                  LeavingPartials* leaving, NeededTraffic* traffic);

}  // namespace lockstep::plan
