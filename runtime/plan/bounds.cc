#include "runtime/plan/bounds.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/plan/node_cover.h"
#include "runtime/plan/tile_index.h"

namespace lockstep::plan {
namespace {

// A rank's place along some axes of a mesh, in row-major order.
int PlaceAlong(const Mesh& mesh, const std::vector<int>& axes, int index) {
  int place = 0;
  for (int axis : axes) place = place * mesh.AxisSize(axis) + mesh.Coordinate(index, axis);
  return place;
}

// Ranks of the new mesh that together need a tile once: one, or where partial values are made,
// those along these axes.
struct Group {
  std::vector<Rank> ranks;
  std::set<int> nodes;
  double lacking = 0;      // bytes that none of them holds
  double far_lacking = 0;  // bytes that nothing on its nodes holds
};

struct SourceTile {
  Box box;
  // Ranks whose values are combined into the tile, one for each layer: replicas of each other. Of
  // one rank each, if nothing is combined.
  std::vector<std::vector<Rank>> slices;
  size_t layers() const { return slices.front().size(); }
};
struct TargetTile {
  Box box;
  std::vector<Group> groups;
};

using Key = std::pair<int, int>;  // the layer that is kept, and the tile's number

class Bounding {
 public:
  Bounding(const Layout& from, const Layout& to, const Topology& topology)
      : topology_(topology), element_bytes_(static_cast<double>(SizeOf(from.dtype()))), index_(to) {
    const bool same_mesh = from.mesh() == to.mesh();
    const auto keeps = [&](int a) { return same_mesh && from.placement(a) == to.placement(a); };
    std::vector<int> kept;
    std::vector<int> combined;
    std::vector<int> made;
    for (int a : from.PartialAxes()) (keeps(a) ? kept : combined).push_back(a);
    for (int a : to.PartialAxes()) {
      if (!keeps(a)) made.push_back(a);
    }
    // A value that is combined with itself by min or max is needed by each.
    if (to.reduction() == Reduction::kMin || to.reduction() == Reduction::kMax) made.clear();
    ReadSources(from, kept, combined);
    ReadTargets(to, kept, made);
  }

  Bounds Run() {
    for (const auto& [key, source] : sources_) BoundTile(key.first, source);
    for (const auto& [key, target] : targets_) {
      for (const Group& group : target.groups) {
        CountRank(group.lacking / static_cast<double>(group.ranks.size()));
        CountNode(group.far_lacking / static_cast<double>(group.nodes.size()));
      }
    }
    for (const auto& [node, bytes] : into_node_) CountNode(bytes);
    for (const auto& [node, bytes] : out_of_node_) CountNode(bytes);
    std::map<int, double> ranks_on;
    for (Rank rank : ranks_) ++ranks_on[topology_.NodeOf(rank)];
    for (const auto& [node, bytes] : into_ranks_of_) CountRank(bytes / ranks_on[node]);
    for (const auto& [node, bytes] : within_node_) {
      const auto out = out_of_node_.find(node);
      const double leaving = out == out_of_node_.end() ? 0 : out->second;
      CountRank((bytes + leaving) / ranks_on[node]);
    }
    // What moves in all, divided evenly.
    if (!ranks_.empty()) CountRank(rank_transfers_ / static_cast<double>(ranks_.size()));
    if (!nodes_.empty()) CountNode(node_transfers_ / static_cast<double>(nodes_.size()));
    bounds_.network = node_transfers_;
    return bounds_;
  }

 private:
  void CountRank(double bytes) { bounds_.busiest_rank = std::max(bounds_.busiest_rank, bytes); }
  void CountNode(double bytes) { bounds_.busiest_node = std::max(bounds_.busiest_node, bytes); }

  // Who holds the partial values of a tile.
  struct Partials {
    size_t layers = 0;
    std::map<Rank, int> layer_of;
    NodeLayers on_node;
    NodeCover cover;
  };
  Partials PartialsOf(const SourceTile& source) const {
    Partials partials;
    partials.layers = source.layers();
    for (const std::vector<Rank>& slice : source.slices) {
      for (size_t layer = 0; layer < slice.size(); ++layer) {
        partials.layer_of[slice[layer]] = static_cast<int>(layer);
        ++partials.on_node[topology_.NodeOf(slice[layer])][static_cast<int>(layer)];
      }
    }
    if (partials.layers > 1) partials.cover = CoverOf(partials.on_node, partials.layers);
    return partials;
  }

  // What leaves those that hold partial values of a tile, in all.
  struct Leaving {
    double ranks = 0;
    double nodes = 0;
    // For what is combined on the node that needs it: by node, of each layer.
    std::map<int, std::map<int, double>> of_layers;
  };

  // What has to leave the ranks that hold this tile, and enter those that lack parts of it.
  void BoundTile(int kept_layer, const SourceTile& source) {
    std::map<int, double> to_own_node;  // bytes, by node
    double to_others = 0;
    double leaving = 0;
    const std::vector<Rank> holders = HoldersOf(source);
    const Partials partials = PartialsOf(source);
    std::map<int, int> on_node;  // how many holders
    for (Rank rank : holders) ++on_node[topology_.NodeOf(rank)];
    Leaving sent;
    index_.ForEachOverlapping(source.box, [&](int number) {
      const auto at = targets_.find({kept_layer, number});
      if (at == targets_.end()) return;
      TargetTile& target = at->second;
      const Box both = Intersection(source.box, target.box);
      const double bytes = static_cast<double>(both.NumElements()) * element_bytes_;
      if (source.layers() > 1) {
        Combine(partials, target, bytes, sent);
      } else {
        Fetch(holders, on_node, target, bytes, to_own_node, to_others, leaving);
      }
    });
    const auto per_holder = [&](double bytes) {
      return bytes / static_cast<double>(holders.size());
    };
    if (source.layers() > 1) {
      CountRank(per_holder(sent.ranks));
      CountNode(sent.nodes / static_cast<double>(on_node.size()));
      for (const auto& [node, layers] : sent.of_layers) {
        for (const auto& [layer, bytes] : layers) CountRank(bytes);
      }
      return;
    }
    for (const auto& [node, bytes] : to_own_node) CountRank(bytes / on_node[node]);
    CountRank(per_holder(leaving));
    CountNode(to_others / static_cast<double>(on_node.size()));
    if (on_node.size() == 1) out_of_node_[on_node.begin()->first] += to_others;
  }

  void TakesPart(Rank rank) {
    ranks_.insert(rank);
    nodes_.insert(topology_.NodeOf(rank));
  }

  void ReadSources(const Layout& from, const std::vector<int>& kept,
                   const std::vector<int>& combined) {
    for (int index = 0; index < from.mesh().size(); ++index) {
      const Box box = from.TileAt(index);
      if (box.IsEmpty()) continue;
      SourceTile& tile = sources_[{PlaceAlong(from.mesh(), kept, index), from.TileNumberAt(index)}];
      tile.box = box;
      TakesPart(from.mesh().RankAt(index));
      if (PlaceAlong(from.mesh(), combined, index) != 0) continue;
      std::vector<Rank>& slice = tile.slices.emplace_back();
      for (int member : from.mesh().Slice(index, combined)) {
        slice.push_back(from.mesh().RankAt(member));
      }
    }
  }

  void ReadTargets(const Layout& to, const std::vector<int>& kept, const std::vector<int>& made) {
    for (int index = 0; index < to.mesh().size(); ++index) {
      const Box box = to.TileAt(index);
      if (box.IsEmpty()) continue;
      TakesPart(to.mesh().RankAt(index));
      if (PlaceAlong(to.mesh(), made, index) != 0) continue;
      TargetTile& tile = targets_[{PlaceAlong(to.mesh(), kept, index), to.TileNumberAt(index)}];
      tile.box = box;
      Group group;
      for (int member : to.mesh().Slice(index, made)) {
        group.ranks.push_back(to.mesh().RankAt(member));
        group.nodes.insert(topology_.NodeOf(group.ranks.back()));
      }
      tile.groups.push_back(std::move(group));
    }
  }

  // Ascending.
  static std::vector<Rank> HoldersOf(const SourceTile& source) {
    std::vector<Rank> holders;
    for (const std::vector<Rank>& slice : source.slices) {
      holders.insert(holders.end(), slice.begin(), slice.end());
    }
    std::sort(holders.begin(), holders.end());
    return holders;
  }
  // What is held by ranks that all have the same.
  void Fetch(const std::vector<Rank>& holders, const std::map<int, int>& holding,
             TargetTile& target, double bytes, std::map<int, double>& to_own_node,
             double& to_others, double& leaving) {
    std::set<int> near;
    std::set<int> far;
    for (Group& group : target.groups) {
      const bool has = std::any_of(group.ranks.begin(), group.ranks.end(), [&](Rank rank) {
        return std::binary_search(holders.begin(), holders.end(), rank);
      });
      if (has) continue;
      group.lacking += bytes;
      rank_transfers_ += bytes;
      if (group.ranks.size() == 1) into_ranks_of_[*group.nodes.begin()] += bytes;
      const auto node = std::find_if(group.nodes.begin(), group.nodes.end(),
                                     [&](int n) { return holding.contains(n); });
      if (node != group.nodes.end()) {
        near.insert(*node);
        if (group.ranks.size() == 1) within_node_[*node] += bytes;
        continue;
      }
      group.far_lacking += bytes;
      if (group.ranks.size() != 1) continue;
      // What enters the node once, goes on to the others there.
      const bool is_first = far.insert(*group.nodes.begin()).second;
      if (!is_first) within_node_[*group.nodes.begin()] += bytes;
    }
    const bool alone = target.groups.front().ranks.size() == 1;
    for (int node : near) {
      if (alone) to_own_node[node] += bytes;
    }
    if (!far.empty()) to_others += bytes;
    // Once for each node that has it; one of these can send it on to the others.
    if (alone) leaving += bytes * static_cast<double>(near.size());
    if (near.empty() && !far.empty()) leaving += bytes;
    for (int node : far) {
      into_node_[node] += bytes;
      node_transfers_ += bytes;
    }
  }

  // What is combined of several layers, element by element. Some rank is the first to have the
  // result: as many layers as it lacks have been sent on before, and after that the result comes to
  // each other rank that needs it.
  void Combine(const Partials& source, TargetTile& target, double bytes, Leaving& leaving) {
    // Partial values may become others without being combined.
    if (target.groups.front().ranks.size() > 1) return;
    constexpr int kNone = -1;
    std::map<int, std::set<int>> needers;  // by node: the layers that they hold, or kNone
    std::map<int, double> needed_on;       // how many they are
    std::set<int> all;
    for (Group& group : target.groups) {
      group.lacking += bytes;
      const auto held = source.layer_of.find(group.ranks.front());
      const int layer = held == source.layer_of.end() ? kNone : held->second;
      needers[topology_.NodeOf(group.ranks.front())].insert(layer);
      ++needed_on[topology_.NodeOf(group.ranks.front())];
      all.insert(layer);
    }
    const auto layers = static_cast<double>(source.layers);
    const bool by_needer = *all.rbegin() != kNone;
    rank_transfers_ += bytes * (layers - 1) +
                       bytes * static_cast<double>(target.groups.size() - (by_needer ? 1 : 0));
    // A layer need not be sent at all only if all that need the result hold it.
    const bool stays = all.size() == 1 && by_needer;
    leaving.ranks += bytes * (layers - (stays ? 1 : 0));
    for (const auto& [node, held] : needers) {
      const auto at = source.on_node.find(node);
      if (at == source.on_node.end() || at->second.size() < source.layers) continue;
      for (const auto& [layer, count] : at->second) {
        if (held.size() == 1 && held.contains(layer)) continue;
        leaving.of_layers[node][layer] += bytes / static_cast<double>(count);
      }
    }
    CombineInNodes(needers, needed_on, source, bytes);
    CombineNodes(needers, source, bytes, leaving);
  }

  // What ranks of one node give each other, if no more crosses the network than has to. A node that
  // has all layers, and needs the result, combines them by itself; else what no other node has is
  // combined before it leaves, or with what comes.
  void CombineInNodes(const std::map<int, std::set<int>>& needers,
                      const std::map<int, double>& needed_on, const Partials& source,
                      double bytes) {
    for (const auto& [node, needed] : needed_on) {
      const auto at = source.on_node.find(node);
      const bool is_whole = at != source.on_node.end() && at->second.size() == source.layers;
      if (!is_whole) {
        into_ranks_of_[node] += bytes * needed;
        within_node_[node] += bytes * (needed - 1);
        continue;
      }
      const bool by_needer = *needers.at(node).rbegin() >= 0;
      const double moved =
          bytes * (static_cast<double>(source.layers) - 1 + needed - (by_needer ? 1 : 0));
      into_ranks_of_[node] += moved;
      within_node_[node] += moved;
    }
    for (const auto& [node, layers] : source.on_node) {
      if (source.cover.fewest == 1) continue;
      const double alone = LayersAlone(source.on_node, node);
      if (alone < 2) continue;
      into_ranks_of_[node] += bytes * (alone - 1);
      within_node_[node] += bytes * (alone - 1);
    }
  }

  // The same among nodes, which may hold several layers, or all.
  void CombineNodes(const std::map<int, std::set<int>>& needers, const Partials& source,
                    double bytes, Leaving& leaving) {
    const NodeLayers& on_node = source.on_node;
    const NodeCover& cover = source.cover;
    const size_t layers = source.layers;
    std::vector<int> lacking;
    for (const auto& [node, unused] : needers) {
      const auto at = on_node.find(node);
      if (at != on_node.end() && at->second.size() == layers) continue;
      lacking.push_back(node);
      into_node_[node] += bytes;
    }
    if (lacking.empty()) return;
    const auto others = static_cast<double>(lacking.size()) - 1;
    const bool is_whole_on_one = cover.fewest == 1;
    if (is_whole_on_one) {
      node_transfers_ += bytes * (others + 1);
      leaving.nodes += bytes;
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
    node_transfers_ += bytes * (with_needer - 1 + others);
    // As with ranks: a node need not send what it holds only if all that need the result hold it.
    const bool all_sent = !all_hold_some || (others > 0 && !cover.overlaps);
    const double fewest_sent = others > 0 ? cover.fewest - 1 : with_needer - 1;
    leaving.nodes += bytes * (all_sent ? cover.fewest : fewest_sent);
    for (const auto& [node, some] : on_node) {
      const bool is_wanted_elsewhere = needers.size() > 1 || !needers.contains(node);
      if (is_wanted_elsewhere && LayersAlone(on_node, node) > 0) out_of_node_[node] += bytes;
    }
  }

  const Topology& topology_;
  const double element_bytes_;
  std::map<Key, SourceTile> sources_;
  std::map<Key, TargetTile> targets_;
  const TileIndex index_;  // of targets_
  std::set<Rank> ranks_;   // that hold anything, before or after
  std::set<int> nodes_;
  std::map<int, double> into_node_;
  std::map<int, double> out_of_node_;    // what no other node has
  std::map<int, double> into_ranks_of_;  // by node: what its ranks receive together, from anywhere
  std::map<int, double> within_node_;    // what of that comes from ranks of the node
  double rank_transfers_ = 0;
  double node_transfers_ = 0;
  Bounds bounds_;
};

}  // namespace

Bounds LowerBounds(const Layout& from, const Layout& to, const Topology& topology) {
  return Bounding(from.WithoutUnitAxes(), to.WithoutUnitAxes(), topology).Run();
}

}  // namespace lockstep::plan
