#include "runtime/plan/bounds/needed_traffic.h"

#include <algorithm>

namespace lockstep::plan {

void NeededTraffic::CountRank(double bytes) {
  bounds.busiest_rank = std::max(bounds.busiest_rank, bytes);
}
void NeededTraffic::CountNode(double bytes) {
  bounds.busiest_node = std::max(bounds.busiest_node, bytes);
}

Bounds NeededTraffic::Total() {
  for (const auto& [node, bytes] : into_node) CountNode(bytes);
  for (const auto& [node, bytes] : out_of_node) CountNode(bytes);
  std::map<int, double> ranks_on;
  for (const Rank rank : ranks) ++ranks_on[topology.NodeOf(rank)];
  for (const auto& [node, bytes] : into_ranks_of) CountRank(bytes / ranks_on[node]);
  for (const auto& [node, bytes] : within_node) {
    const auto out = out_of_node.find(node);
    const double leaving = out == out_of_node.end() ? 0 : out->second;
    CountRank((bytes + leaving) / ranks_on[node]);
  }
  // What moves in all, divided evenly.
  if (!ranks.empty()) CountRank(rank_transfers / static_cast<double>(ranks.size()));
  if (!nodes.empty()) CountNode(node_transfers / static_cast<double>(nodes.size()));
  bounds.network = node_transfers;
  return bounds;
}

}  // namespace lockstep::plan
