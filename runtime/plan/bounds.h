// Lower bounds: what no way of doing a reshard can do with less.
#pragma once

#include "runtime/plan/layout.h"
#include "runtime/plan/topology.h"

namespace lockstep::plan {

// Bytes. A plan whose busiest rank or node moves fewer does not exist, as long as what is held on
// the node where it is needed comes from there (docs/plans.md derives each).
struct Bounds {
  double busiest_rank = 0;
  double busiest_node = 0;  // over the network, in or out
};

Bounds LowerBounds(const Layout& from, const Layout& to, const Topology& topology);

}  // namespace lockstep::plan
