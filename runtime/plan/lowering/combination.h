// Combination: who combines which elements of partial values, and sends them to whom.
//
// A reduce-scatter deals out equal parts along the axes of one mesh, which may have little to do
// with where the result is needed, or with which ranks share a node. Here each element is combined
// on a rank that is chosen for it: one that needs the result, or is on a node that does, as long as
// others do not have less to do. Replicas share the work: they are paired to teams of as few nodes
// as may be, and each team combines some of the elements. From there an exchange brings them to
// those that need them.
//
// Pure functions. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/lowering/exchange.h"
#include "runtime/plan/lowering/topology.h"

namespace lockstep::plan {

// Ranks that hold one tile of all layers, one of each.
struct CombiningTeam {
  std::vector<Rank> ranks;
  // What is combined, in the order of `ranks`: each piece is of the rank that combines it (`from`
  // and `to`). A rank has at most one piece of a flow.
  std::vector<Piece> pieces;

  // How many elements each combines, by its place in `ranks`.
  std::vector<int64_t> Counts() const;
};

struct Combination {
  std::vector<CombiningTeam> teams;  // with pieces; no rank is in two
  // What comes after that. The holders of a flow are those that combine some of it and do not need
  // it; those of its needers that combine some of it have that in their tiles.
  Exchange exchange;
  int64_t effort = 0;  // what it took to find it

  // Null: the rank combines nothing.
  const CombiningTeam* TeamWith(Rank rank) const;
};

// From a layout with partial values to one without some of them, or without any; both of one shape
// and dtype. What partial values stay are of the same axes of the same ranks. Nothing if it has
// more than `most_pieces` pieces.
std::optional<Combination> PlanCombination(const Layout& from, const Layout& to,
                                           const Topology& topology, Spread spread,
                                           int64_t most_pieces);

}  // namespace lockstep::plan
