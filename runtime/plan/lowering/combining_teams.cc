#include "runtime/plan/lowering/combining_teams.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/plan/lowering/tile_index.h"

namespace lockstep::plan {
namespace {

using Team = std::vector<Rank>;

// Takes as many teams as there are on one node each.
std::vector<Team> TakeWhole(std::vector<std::vector<Rank>>& layers, const Topology& topology) {
  std::map<int, std::vector<std::vector<Rank>>> on_node;  // by layer
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (Rank rank : layers[layer]) {
      std::vector<std::vector<Rank>>& there = on_node[topology.NodeOf(rank)];
      there.resize(layers.size());
      there[layer].push_back(rank);
    }
  }
  std::vector<Team> teams;
  for (const auto& [node, there] : on_node) {
    size_t whole = there[0].size();
    for (const std::vector<Rank>& replicas : there) whole = std::min(whole, replicas.size());
    for (size_t i = 0; i < whole; ++i) {
      Team& team = teams.emplace_back();
      for (size_t layer = 0; layer < layers.size(); ++layer) {
        team.push_back(there[layer][i]);
        std::erase(layers[layer], team.back());
      }
    }
  }
  return teams;
}

// A replica of each layer; if there are any on a node that the team is on already, one of these.
std::vector<Team> Pair(std::vector<std::vector<Rank>> layers, const Topology& topology) {
  std::vector<Team> whole = TakeWhole(layers, topology);
  std::vector<Team> teams(layers[0].size());
  for (std::vector<Rank>& left : layers) {
    std::vector<Team*> without;
    for (Team& team : teams) {
      const auto near = std::find_if(left.begin(), left.end(), [&](Rank rank) {
        return std::any_of(team.begin(), team.end(), [&](Rank member) {
          return topology.NodeOf(member) == topology.NodeOf(rank);
        });
      });
      if (near == left.end()) {
        without.push_back(&team);
        continue;
      }
      team.push_back(*near);
      left.erase(near);
    }
    for (size_t i = 0; i < without.size(); ++i) without[i]->push_back(left[i]);
  }
  whole.insert(whole.end(), teams.begin(), teams.end());
  return whole;
}

}  // namespace

std::vector<PartialTile> PartialTilesOf(const Layout& from, const Layout& to,
                                        const Topology& topology) {
  const bool keeps_layers = !to.PartialAxes().empty();
  std::map<std::pair<int, int>, std::pair<Box, std::vector<std::vector<Rank>>>> layers;
  for (HeldTile& held : TilesOf(from)) {
    const int kept = keeps_layers ? to.LayerAt(*to.mesh().IndexOf(held.ranks[0])) : 0;
    auto& tile = layers[{kept, held.number}];
    tile.first = held.box;
    tile.second.push_back(std::move(held.ranks));
  }
  std::vector<PartialTile> tiles;
  for (auto& [key, tile] : layers) {
    tiles.push_back({tile.first, key.first, Pair(std::move(tile.second), topology)});
  }
  return tiles;
}

}  // namespace lockstep::plan
