// How few nodes hold all layers of partial values together.
#pragma once

#include <cstddef>
#include <map>

namespace lockstep::plan {

// By node: how many of its ranks hold each layer.
using NodeLayers = std::map<int, std::map<int, int>>;

struct NodeCover {
  int fewest = 0;
  std::map<int, int> with;  // by node that holds any: if it is one of them
  bool overlaps = false;    // a layer is on several nodes
};

// No fewer than these do it. As many do, if they are few, or no layer is on several.
NodeCover CoverOf(const NodeLayers& on_node, size_t layers);

// How many layers are on this node, which holds some, and on no other.
int LayersAlone(const NodeLayers& on_node, int node);

}  // namespace lockstep::plan
