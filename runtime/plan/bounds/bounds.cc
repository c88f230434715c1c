#include "runtime/plan/bounds/bounds.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/plan/bounds/combining_bounds.h"
#include "runtime/plan/bounds/needed_traffic.h"
#include "runtime/plan/lowering/tile_index.h"

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
      : topology_(topology),
        element_bytes_(static_cast<double>(SizeOf(from.dtype()))),
        index_(to),
        traffic_(topology) {
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
        traffic_.CountRank(group.lacking / static_cast<double>(group.ranks.size()));
        traffic_.CountNode(group.far_lacking / static_cast<double>(group.nodes.size()));
      }
    }
    return traffic_.Total();
  }

 private:
  // What has to leave the ranks that hold this tile, and enter those that lack parts of it.
  void BoundTile(int kept_layer, const SourceTile& source) {
    std::map<int, double> to_own_node;  // bytes, by node
    double to_others = 0;
    double leaving = 0;
    const std::vector<Rank> holders = HoldersOf(source);
    const PartialHolders partials(source.slices, topology_);
    std::map<int, int> on_node;  // how many holders
    for (Rank rank : holders) ++on_node[topology_.NodeOf(rank)];
    LeavingPartials sent;
    index_.ForEachOverlapping(source.box, [&](int number) {
      const auto at = targets_.find({kept_layer, number});
      if (at == targets_.end()) return;
      TargetTile& target = at->second;
      const Box both = Intersection(source.box, target.box);
      const double bytes = static_cast<double>(both.NumElements()) * element_bytes_;
      if (source.layers() > 1) {
        Combine(partials, target, bytes, &sent);
      } else {
        Fetch(holders, on_node, target, bytes, to_own_node, to_others, leaving);
      }
    });
    const auto per_holder = [&](double bytes) {
      return bytes / static_cast<double>(holders.size());
    };
    if (source.layers() > 1) {
      traffic_.CountRank(per_holder(sent.ranks));
      traffic_.CountNode(sent.nodes / static_cast<double>(on_node.size()));
      for (const auto& [node, layers] : sent.of_layers) {
        for (const auto& [layer, bytes] : layers) traffic_.CountRank(bytes);
      }
      return;
    }
    for (const auto& [node, bytes] : to_own_node) traffic_.CountRank(bytes / on_node[node]);
    traffic_.CountRank(per_holder(leaving));
    traffic_.CountNode(to_others / static_cast<double>(on_node.size()));
    if (on_node.size() == 1) traffic_.out_of_node[on_node.begin()->first] += to_others;
  }

  void ReadSources(const Layout& from, const std::vector<int>& kept,
                   const std::vector<int>& combined) {
    for (int index = 0; index < from.mesh().size(); ++index) {
      const Box box = from.TileAt(index);
      if (box.IsEmpty()) continue;
      SourceTile& tile = sources_[{PlaceAlong(from.mesh(), kept, index), from.TileNumberAt(index)}];
      tile.box = box;
      traffic_.TakesPart(from.mesh().RankAt(index));
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
      traffic_.TakesPart(to.mesh().RankAt(index));
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
  void Combine(const PartialHolders& source, TargetTile& target, double bytes,
               LeavingPartials* leaving) {
    // Partial values may become others without being combined.
    if (target.groups.front().ranks.size() > 1) return;
    std::vector<Rank> needers;
    for (Group& group : target.groups) {
      group.lacking += bytes;
      needers.push_back(group.ranks.front());
    }
    AddCombining(source, needers, bytes, leaving, &traffic_);
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
      traffic_.rank_transfers += bytes;
      if (group.ranks.size() == 1) traffic_.into_ranks_of[*group.nodes.begin()] += bytes;
      const auto node = std::find_if(group.nodes.begin(), group.nodes.end(),
                                     [&](int n) { return holding.contains(n); });
      if (node != group.nodes.end()) {
        near.insert(*node);
        if (group.ranks.size() == 1) traffic_.within_node[*node] += bytes;
        continue;
      }
      group.far_lacking += bytes;
      if (group.ranks.size() != 1) continue;
      // What enters the node once, goes on to the others there.
      const bool is_first = far.insert(*group.nodes.begin()).second;
      if (!is_first) traffic_.within_node[*group.nodes.begin()] += bytes;
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
      traffic_.into_node[node] += bytes;
      traffic_.node_transfers += bytes;
    }
  }

  const Topology& topology_;
  const double element_bytes_;
  std::map<Key, SourceTile> sources_;
  std::map<Key, TargetTile> targets_;
  const TileIndex index_;  // of targets_
  NeededTraffic traffic_;
};

}  // namespace

Bounds LowerBounds(const Layout& from, const Layout& to, const Topology& topology) {
  return Bounding(from.WithoutUnitAxes(), to.WithoutUnitAxes(), topology).Run();
}

}  // namespace lockstep::plan
