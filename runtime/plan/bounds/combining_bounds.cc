#include "runtime/plan/bounds/combining_bounds.h"

#include <algorithm>
#include <set>

namespace lockstep::plan {
namespace {

// What ranks of one node give each other, if no more crosses the network than has to. A node that
// has all layers, and needs the result, combines them by itself; else what no other node has is
// combined before it leaves, or with what comes.
void CombineInNodes(const std::map<int, std::set<int>>& needers,
                    const std::map<int, double>& needed_on, const PartialHolders& source,
                    double bytes, NeededTraffic* traffic) {
  for (const auto& [node, needed] : needed_on) {
    const auto at = source.on_node.find(node);
    const bool is_whole = at != source.on_node.end() && at->second.size() == source.layers;
    if (!is_whole) {
      traffic->into_ranks_of[node] += bytes * needed;
      traffic->within_node[node] += bytes * (needed - 1);
      continue;
    }
    const bool by_needer = *needers.at(node).rbegin() >= 0;
    const double moved =
        bytes * (static_cast<double>(source.layers) - 1 + needed - (by_needer ? 1 : 0));
    traffic->into_ranks_of[node] += moved;
    traffic->within_node[node] += moved;
  }
  for (const auto& [node, layers] : source.on_node) {
    if (source.cover.fewest == 1) continue;
    const double alone = LayersAlone(source.on_node, node);
    if (alone < 2) continue;
    traffic->into_ranks_of[node] += bytes * (alone - 1);
    traffic->within_node[node] += bytes * (alone - 1);
  }
}

// The same among nodes, which may hold several layers, or all.
void CombineNodes(const std::map<int, std::set<int>>& needers, const PartialHolders& source,
                  double bytes, LeavingPartials* leaving, NeededTraffic* traffic) {
  const NodeLayers& on_node = source.on_node;
  const NodeCover& cover = source.cover;
  const size_t layers = source.layers;
  std::vector<int> lacking;
  for (const auto& [node, unused] : needers) {
    const auto at = on_node.find(node);
    if (at != on_node.end() && at->second.size() == layers) continue;
    lacking.push_back(node);
    traffic->into_node[node] += bytes;
  }
  if (lacking.empty()) return;
  const auto others = static_cast<double>(lacking.size()) - 1;
  const bool is_whole_on_one = cover.fewest == 1;
  if (is_whole_on_one) {
    traffic->node_transfers += bytes * (others + 1);
    leaving->nodes += bytes;
    return;
  }
  double with_needer = cover.fewest + 1;
  bool all_hold_some = true;
  for (int node : lacking) {
    const auto at = cover.with.find(node);
    if (at == cover.with.end()) {
      all_hold_some = false;
    } else {
      with_needer = std::min<double>(with_needer, at->second);
    }
  }
  traffic->node_transfers += bytes * (with_needer - 1 + others);
  // As with ranks: a node need not send what it holds only if all that need the result hold it.
  const bool all_sent = !all_hold_some || (others > 0 && !cover.overlaps);
  const double fewest_sent = others > 0 ? cover.fewest - 1 : with_needer - 1;
  leaving->nodes += bytes * (all_sent ? cover.fewest : fewest_sent);
  for (const auto& [node, some] : on_node) {
    const bool is_wanted_elsewhere = needers.size() > 1 || !needers.contains(node);
    if (is_wanted_elsewhere && LayersAlone(on_node, node) > 0) traffic->out_of_node[node] += bytes;
  }
}

}  // namespace

PartialHolders::PartialHolders(const std::vector<std::vector<Rank>>& slices,
                               const Topology& topology)
    : layers(slices.front().size()) {
  for (const std::vector<Rank>& slice : slices) {
    for (size_t layer = 0; layer < slice.size(); ++layer) {
      layer_of[slice[layer]] = static_cast<int>(layer);
      ++on_node[topology.NodeOf(slice[layer])][static_cast<int>(layer)];
    }
  }
  if (layers > 1) cover = CoverOf(on_node, layers);
}

// What is combined of several layers, element by element. Some rank is the first to have the
// result: as many layers as it lacks have been sent on before, and after that the result comes to
// each other rank that needs it.
void AddCombining(const PartialHolders& source, absl::Span<const Rank> ranks, double bytes,
                  LeavingPartials* leaving, NeededTraffic* traffic) {
  constexpr int kNone = -1;
  std::map<int, std::set<int>> needers;  // by node: the layers that they hold, or kNone
  std::map<int, double> needed_on;       // how many they are
  std::set<int> all;
  for (const Rank rank : ranks) {
    const auto held = source.layer_of.find(rank);
    const int layer = held == source.layer_of.end() ? kNone : held->second;
    const int node = traffic->topology.NodeOf(rank);
    needers[node].insert(layer);
    ++needed_on[node];
    all.insert(layer);
  }
  const auto layers = static_cast<double>(source.layers);
  const bool by_needer = *all.rbegin() != kNone;
  traffic->rank_transfers +=
      bytes * (layers - 1) + bytes * static_cast<double>(ranks.size() - (by_needer ? 1 : 0));
  // A layer need not be sent at all only if all that need the result hold it.
  const bool stays = all.size() == 1 && by_needer;
  leaving->ranks += bytes * (layers - (stays ? 1 : 0));
  for (const auto& [node, held] : needers) {
    const auto at = source.on_node.find(node);
    if (at == source.on_node.end() || at->second.size() < source.layers) continue;
    for (const auto& [layer, count] : at->second) {
      if (held.size() == 1 && held.contains(layer)) continue;
      leaving->of_layers[node][layer] += bytes / static_cast<double>(count);
    }
  }
  CombineInNodes(needers, needed_on, source, bytes, traffic);
  CombineNodes(needers, source, bytes, leaving, traffic);
}

}  // namespace lockstep::plan
