// What has to move, whichever way a reshard is done, added up tile by tile.
#pragma once

#include <map>
#include <set>

#include "runtime/base/ids.h"
#include "runtime/plan/bounds/bounds.h"
#include "runtime/plan/lowering/topology.h"

namespace lockstep::plan {

struct NeededTraffic {
  explicit NeededTraffic(const Topology& on) : topology(on) {}

  // It holds something, before or after.
  void TakesPart(Rank rank) {
    ranks.insert(rank);
    nodes.insert(topology.NodeOf(rank));
  }
  // One rank, or node, moves so many bytes at least.
  void CountRank(double bytes);
  void CountNode(double bytes);
  // Those that were counted, and what the sums below come to when they are divided as evenly as can
  // be. Once, at the end.
  Bounds Total();

  const Topology& topology;  // borrowed
  std::set<Rank> ranks;
  std::set<int> nodes;
  // Bytes.
  std::map<int, double> into_node;
  std::map<int, double> out_of_node;    // what no other node has
  std::map<int, double> into_ranks_of;  // by node: what its ranks receive together, from anywhere
  std::map<int, double> within_node;    // what of that comes from ranks of the node
  double rank_transfers = 0;
  double node_transfers = 0;
  Bounds bounds;
};

}  // namespace lockstep::plan
