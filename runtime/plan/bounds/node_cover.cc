#include "runtime/plan/bounds/node_cover.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <vector>

namespace lockstep::plan {
namespace {

// `held`: how many layers each node holds, descending.
int FewestThatHold(size_t layers, const std::vector<size_t>& held) {
  size_t count = 0;
  for (size_t sum = 0; sum < layers && count < held.size(); ++count) sum += held[count];
  return static_cast<int>(count);
}

// As if no two nodes held the same.
void CountLayers(const NodeLayers& on_node, size_t layers, const std::vector<size_t>& held,
                 NodeCover& cover) {
  cover.fewest = FewestThatHold(layers, held);
  for (const auto& [node, some] : on_node) {
    std::vector<size_t> others = held;
    others.erase(std::find(others.begin(), others.end(), some.size()));
    cover.with[node] = 1 + FewestThatHold(layers - some.size(), others);
  }
}

void TryAllSets(const NodeLayers& on_node, NodeCover& cover) {
  std::map<int, unsigned> holding;  // by layer: the nodes, one bit each
  unsigned bit = 1;
  for (const auto& [node, layers] : on_node) {
    for (const auto& [layer, unused] : layers) holding[layer] |= bit;
    bit <<= 1;
  }
  cover.fewest = static_cast<int>(on_node.size());
  for (const auto& [node, unused] : on_node) cover.with[node] = cover.fewest;
  for (unsigned set = 1; set < bit; ++set) {
    const bool covers = std::all_of(holding.begin(), holding.end(),
                                    [&](const auto& nodes) { return (nodes.second & set) != 0; });
    if (!covers) continue;
    const int count = std::popcount(set);
    cover.fewest = std::min(cover.fewest, count);
    unsigned own = 1;
    for (auto& [node, with] : cover.with) {
      if ((set & own) != 0) with = std::min(with, count);
      own <<= 1;
    }
  }
}

}  // namespace

NodeCover CoverOf(const NodeLayers& on_node, size_t layers) {
  constexpr size_t kMostToTry = 8;
  std::vector<size_t> held;
  for (const auto& [node, some] : on_node) held.push_back(some.size());
  std::sort(held.begin(), held.end(), std::greater<>());
  NodeCover cover;
  cover.overlaps = std::accumulate(held.begin(), held.end(), size_t{0}) > layers;
  if (cover.overlaps && held.size() <= kMostToTry) {
    TryAllSets(on_node, cover);
  } else {
    CountLayers(on_node, layers, held, cover);
  }
  return cover;
}

int LayersAlone(const NodeLayers& on_node, int node) {
  const std::map<int, int>& mine = on_node.at(node);
  return static_cast<int>(std::count_if(mine.begin(), mine.end(), [&](const auto& held) {
    return std::all_of(on_node.begin(), on_node.end(), [&](const auto& other) {
      return other.first == node || !other.second.contains(held.first);
    });
  }));
}

}  // namespace lockstep::plan
