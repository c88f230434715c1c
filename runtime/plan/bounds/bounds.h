// Lower bounds: what no way of doing a reshard can do with less.
#pragma once

#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/topology.h"

namespace lockstep::plan {

// Bytes (docs/plans.md derives each). No plan's busiest node moves fewer, nor do all nodes
// together. No plan's busiest rank does, unless more than `network` crosses: what is held, or can
// be combined, on the node where it is needed would come from another.
struct Bounds {
  double busiest_rank = 0;
  double busiest_node = 0;  // over the network, in or out
  double network = 0;       // into all nodes together
};

Bounds LowerBounds(const Layout& from, const Layout& to, const Topology& topology);

}  // namespace lockstep::plan
