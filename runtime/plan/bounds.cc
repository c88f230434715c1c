#include "runtime/plan/bounds.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

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
    // What moves in all, divided evenly.
    if (!source_ranks_.empty()) {
      CountRank(leaving_sources_ / static_cast<double>(source_ranks_.size()));
    }
    if (!ranks_.empty()) CountRank(rank_transfers_ / static_cast<double>(ranks_.size()));
    if (!nodes_.empty()) CountNode(node_transfers_ / static_cast<double>(nodes_.size()));
    return bounds_;
  }

 private:
  void CountRank(double bytes) { bounds_.busiest_rank = std::max(bounds_.busiest_rank, bytes); }
  void CountNode(double bytes) { bounds_.busiest_node = std::max(bounds_.busiest_node, bytes); }

  // What has to leave the ranks that hold this tile, and enter those that lack parts of it.
  void BoundTile(int kept_layer, const SourceTile& source) {
    std::map<int, double> to_own_node;  // bytes, by node
    double to_others = 0;
    const std::vector<Rank> holders = HoldersOf(source);
    std::map<int, int> on_node;  // how many holders
    for (Rank rank : holders) ++on_node[topology_.NodeOf(rank)];
    index_.ForEachOverlapping(source.box, [&](int number) {
      const auto at = targets_.find({kept_layer, number});
      if (at == targets_.end()) return;
      TargetTile& target = at->second;
      const Box both = Intersection(source.box, target.box);
      const double bytes = static_cast<double>(both.NumElements()) * element_bytes_;
      if (source.layers() > 1) {
        Combine(source, target, bytes);
      } else {
        Fetch(holders, on_node, target, bytes, to_own_node, to_others);
      }
    });
    if (source.layers() > 1) return;
    double leaving = to_others;
    for (const auto& [node, bytes] : to_own_node) {
      CountRank(bytes / on_node[node]);
      leaving += bytes;
    }
    CountRank(leaving / static_cast<double>(holders.size()));
    CountNode(to_others / static_cast<double>(on_node.size()));
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
      source_ranks_.insert(from.mesh().RankAt(index));
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
  std::set<int> NodesOf(const std::vector<Rank>& ranks) const {
    std::set<int> nodes;
    for (Rank rank : ranks) nodes.insert(topology_.NodeOf(rank));
    return nodes;
  }

  // What is held by ranks that all have the same.
  void Fetch(const std::vector<Rank>& holders, const std::map<int, int>& holding,
             TargetTile& target, double bytes, std::map<int, double>& to_own_node,
             double& to_others) {
    std::set<int> near;
    std::set<int> far;
    for (Group& group : target.groups) {
      const bool has = std::any_of(group.ranks.begin(), group.ranks.end(), [&](Rank rank) {
        return std::binary_search(holders.begin(), holders.end(), rank);
      });
      if (has) continue;
      group.lacking += bytes;
      rank_transfers_ += bytes;
      const auto node = std::find_if(group.nodes.begin(), group.nodes.end(),
                                     [&](int n) { return holding.contains(n); });
      if (node != group.nodes.end()) {
        near.insert(*node);
        continue;
      }
      group.far_lacking += bytes;
      if (group.ranks.size() == 1) far.insert(*group.nodes.begin());
    }
    const bool alone = target.groups.front().ranks.size() == 1;
    for (int node : near) {
      if (alone) to_own_node[node] += bytes;
    }
    if (!far.empty()) to_others += bytes;
    for (int node : far) {
      into_node_[node] += bytes;
      node_transfers_ += bytes;
    }
  }

  // What is combined of several layers: all but one have to move, and then the result, unless it is
  // made where it is needed.
  void Combine(const SourceTile& source, TargetTile& target, double bytes) {
    std::set<Rank> holders;
    std::set<int> whole_on;  // nodes that have all layers
    size_t fewest_nodes = source.layers();
    std::set<int> nodes;
    for (const std::vector<Rank>& slice : source.slices) {
      holders.insert(slice.begin(), slice.end());
      const std::set<int> of_slice = NodesOf(slice);
      nodes.insert(of_slice.begin(), of_slice.end());
      fewest_nodes = std::min(fewest_nodes, of_slice.size());
      if (of_slice.size() == 1) whole_on.insert(*of_slice.begin());
    }
    const auto has_holder = [&](const Group& group) {
      return std::any_of(group.ranks.begin(), group.ranks.end(),
                         [&](Rank rank) { return holders.contains(rank); });
    };
    const bool by_needer = std::any_of(target.groups.begin(), target.groups.end(), has_holder);
    const bool by_all = std::all_of(target.groups.begin(), target.groups.end(), has_holder);
    for (Group& group : target.groups) group.lacking += bytes;
    const auto layers = static_cast<double>(source.layers());
    rank_transfers_ +=
        bytes * (layers - 1 + static_cast<double>(target.groups.size()) - (by_needer ? 1 : 0));
    leaving_sources_ += bytes * (layers - (by_all ? 1 : 0));
    CombineNodes(target, bytes, nodes, whole_on, fewest_nodes);
  }

  void CombineNodes(const TargetTile& target, double bytes, const std::set<int>& nodes,
                    const std::set<int>& whole_on, size_t fewest_nodes) {
    std::set<int> needing;
    for (const Group& group : target.groups) {
      if (group.ranks.size() == 1) needing.insert(*group.nodes.begin());
    }
    if (needing.empty()) return;
    const bool on_needing =
        std::any_of(needing.begin(), needing.end(), [&](int node) { return nodes.contains(node); });
    node_transfers_ += bytes * (static_cast<double>(fewest_nodes) - 1 +
                                static_cast<double>(needing.size()) - (on_needing ? 1 : 0));
    for (int node : needing) {
      if (!whole_on.contains(node)) into_node_[node] += bytes;
    }
  }

  const Topology& topology_;
  const double element_bytes_;
  std::map<Key, SourceTile> sources_;
  std::map<Key, TargetTile> targets_;
  const TileIndex index_;  // of targets_
  std::set<Rank> ranks_;   // that hold anything, before or after
  std::set<Rank> source_ranks_;
  std::set<int> nodes_;
  std::map<int, double> into_node_;
  double rank_transfers_ = 0;
  double leaving_sources_ = 0;  // of what is combined
  double node_transfers_ = 0;
  Bounds bounds_;
};

}  // namespace

Bounds LowerBounds(const Layout& from, const Layout& to, const Topology& topology) {
  return Bounding(from.WithoutUnitAxes(), to.WithoutUnitAxes(), topology).Run();
}

}  // namespace lockstep::plan
