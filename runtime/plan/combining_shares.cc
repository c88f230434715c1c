#include "runtime/plan/combining_shares.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "runtime/plan/tile_index.h"

namespace lockstep::plan {
namespace {

// A replica of each layer, if there is one on a node that the team is on already.
std::vector<std::vector<Rank>> Pair(const std::vector<std::vector<Rank>>& layers,
                                    const Topology& topology) {
  std::vector<std::vector<Rank>> teams(layers[0].size());
  for (const std::vector<Rank>& replicas : layers) {
    std::vector<Rank> left = replicas;
    std::vector<std::vector<Rank>*> without;
    for (std::vector<Rank>& team : teams) {
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
  return teams;
}

// Elements that ranks, or nodes, send and receive.
struct Loads {
  std::vector<double> in;
  std::vector<double> out;

  explicit Loads(size_t size) : in(size, 0), out(size, 0) {}
};

class Sharing {
 public:
  Sharing(const std::vector<PartialTile>& tiles, std::vector<Demand>& demands,
          const Topology& topology, Spread spread)
      : tiles_(tiles),
        demands_(demands),
        topology_(topology),
        forwards_(spread == Spread::kForwarded),
        combining_ranks_(CountRanks()),
        exchanging_ranks_(combining_ranks_),
        combining_nodes_(CountNodes()),
        exchanging_nodes_(combining_nodes_) {
    for (const PartialTile& tile : tiles_) {
      std::vector<std::vector<size_t>>& nodes = nodes_of_teams_.emplace_back();
      for (const std::vector<Rank>& team : tile.teams) nodes.push_back(NodesOf(team));
    }
    for (const Demand& demand : demands_) {
      const std::vector<std::vector<Rank>>& teams = tiles_[demand.tile].teams;
      ++demands_of_tile_[demand.tile];
      total_ += static_cast<double>(demand.box.NumElements());
      candidates_ += static_cast<double>(teams.size() * teams[0].size());
    }
  }

  void Run() {
    for (Demand& demand : demands_) ShareOutOne(demand);
  }

 private:
  size_t CountRanks() const {
    Rank last = 0;
    for (const PartialTile& tile : tiles_) {
      for (const auto& team : tile.teams)
        last = std::max(last, *std::max_element(team.begin(), team.end()));
    }
    for (const Demand& demand : demands_) last = std::max(last, demand.needers.back());
    return static_cast<size_t>(last) + 1;
  }
  size_t CountNodes() const {
    size_t last = 0;
    for (size_t rank = 0; rank < combining_ranks_.in.size(); ++rank) {
      last = std::max(last, NodeOf(static_cast<Rank>(rank)));
    }
    return last + 1;
  }
  static size_t IndexOf(Rank rank) { return static_cast<size_t>(rank); }
  size_t NodeOf(Rank rank) const { return static_cast<size_t>(topology_.NodeOf(rank)); }
  std::vector<size_t> NodesOf(const std::vector<Rank>& ranks) const {
    std::vector<size_t> nodes;
    for (Rank rank : ranks) nodes.push_back(NodeOf(rank));
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  // Where a chunk of a demand would be combined.
  struct Choice {
    size_t team = 0;  // of the tile
    size_t member = 0;
  };

  // Each of some chunks goes to the rank for which the loads become the least bad.
  void ShareOutOne(Demand& demand) {
    const std::vector<std::vector<Rank>>& teams = tiles_[demand.tile].teams;
    demand.shares.assign(teams.size(), std::vector<int64_t>(teams[0].size(), 0));
    const std::map<size_t, double> needing = NeedingNodes(demand);
    const size_t candidates = teams.size() * teams[0].size();
    // For each rank some, as far as other demands on the tile leave them to it.
    constexpr size_t kChunks = 4;
    const size_t wanted = std::max(kChunks, kChunks * candidates / demands_of_tile_[demand.tile]);
    const int64_t elements = demand.box.NumElements();
    const auto chunks = static_cast<int>(std::min(elements, static_cast<int64_t>(wanted)));
    for (int i = 0; i < chunks; ++i) {
      const int64_t count = EvenPart(elements, chunks, i).count;
      const auto chunk = static_cast<double>(count);
      const Choice best = Cheapest(demand, needing, chunk);
      demand.shares[best.team][best.member] += count;
      const auto add = [](double& load, double more, int sign) { load += sign * more; };
      ForEachOfDemand(demand, needing, chunk, add);
      ForEachOfTeam(demand, best, chunk, add);
      ForEachOfMember(demand, needing, best, chunk, add);
    }
  }

  // By how much the sum of the loads' squares grows, with the loads themselves in it: what is busy
  // already counts more, so that the loads become even, and few.
  Choice Cheapest(const Demand& demand, const std::map<size_t, double>& needing, double chunk) {
    constexpr double kIdle = 50;  // times the average: as what a load that is nothing yet counts
    const double idle = kIdle * total_ / candidates_;
    double cost = 0;
    const auto count = [&](const double& load, double more, int sign) {
      cost += sign * more * (2 * load + more + idle);
    };
    const std::vector<std::vector<Rank>>& teams = tiles_[demand.tile].teams;
    std::optional<Choice> best;
    double least = 0;
    for (Choice choice; choice.team < teams.size(); ++choice.team) {
      cost = 0;
      ForEachOfTeam(demand, choice, chunk, count);
      const double of_team = cost;
      for (choice.member = 0; choice.member < teams[choice.team].size(); ++choice.member) {
        cost = of_team;
        ForEachOfMember(demand, needing, choice, chunk, count);
        if (best.has_value() && least <= cost) continue;
        best = choice;
        least = cost;
      }
    }
    return *best;
  }

  // How many times a chunk enters each node, if it is combined on another one.
  std::map<size_t, double> NeedingNodes(const Demand& demand) const {
    std::map<size_t, double> nodes;
    for (Rank needer : demand.needers) {
      double& times = nodes[NodeOf(needer)];
      times = forwards_ ? 1 : times + 1;
    }
    return nodes;
  }

  // These call visit(load, more, sign) for each load that grows by so much, or if the sign is -1,
  // grows by that much less than was said before: whoever combines it; whoever of the team does;
  // and if this member does.
  template <typename VisitLoad>
  void ForEachOfDemand(const Demand& demand, const std::map<size_t, double>& needing, double chunk,
                       VisitLoad&& visit) {
    for (Rank needer : demand.needers) visit(exchanging_ranks_.in[IndexOf(needer)], chunk, 1);
    for (const auto& [node, times] : needing) visit(exchanging_nodes_.in[node], chunk * times, 1);
  }
  template <typename VisitLoad>
  void ForEachOfTeam(const Demand& demand, const Choice& choice, double chunk, VisitLoad&& visit) {
    for (Rank rank : tiles_[demand.tile].teams[choice.team]) {
      visit(combining_ranks_.out[IndexOf(rank)], chunk, 1);
    }
    for (size_t node : nodes_of_teams_[demand.tile][choice.team]) {
      visit(combining_nodes_.out[node], chunk, 1);
    }
  }
  template <typename VisitLoad>
  void ForEachOfMember(const Demand& demand, const std::map<size_t, double>& needing,
                       const Choice& choice, double chunk, VisitLoad&& visit) {
    const std::vector<Rank>& team = tiles_[demand.tile].teams[choice.team];
    const Rank rank = team[choice.member];
    const size_t own = IndexOf(rank);
    const size_t node = NodeOf(rank);
    const size_t team_nodes = nodes_of_teams_[demand.tile][choice.team].size();
    visit(combining_ranks_.out[own], chunk, -1);
    visit(combining_ranks_.in[own], chunk * static_cast<double>(team.size() - 1), 1);
    visit(combining_nodes_.out[node], chunk, -1);
    visit(combining_nodes_.in[node], chunk * static_cast<double>(team_nodes - 1), 1);
    auto sent = static_cast<double>(demand.needers.size());
    if (std::binary_search(demand.needers.begin(), demand.needers.end(), rank)) {
      visit(exchanging_ranks_.in[own], chunk, -1);
      --sent;
    }
    double crossing = forwards_ ? static_cast<double>(needing.size())
                                : static_cast<double>(demand.needers.size());
    if (const auto here = needing.find(node); here != needing.end()) {
      visit(exchanging_nodes_.in[node], chunk * here->second, -1);
      crossing -= here->second;
    }
    // What is forwarded leaves the rank, and its node, once.
    visit(exchanging_ranks_.out[own], chunk * (forwards_ ? std::min(sent, 1.0) : sent), 1);
    visit(exchanging_nodes_.out[node], chunk * (forwards_ ? std::min(crossing, 1.0) : crossing), 1);
  }

  const std::vector<PartialTile>& tiles_;
  std::vector<Demand>& demands_;
  const Topology& topology_;
  const bool forwards_;
  std::vector<std::vector<std::vector<size_t>>> nodes_of_teams_;  // by tile
  std::map<size_t, size_t> demands_of_tile_;
  double total_ = 0;
  double candidates_ = 0;
  // The two are steps, one after the other.
  Loads combining_ranks_;
  Loads exchanging_ranks_;
  Loads combining_nodes_;
  Loads exchanging_nodes_;
};

}  // namespace

std::vector<PartialTile> PartialTilesOf(const Layout& layout, const Topology& topology) {
  std::map<int, std::pair<Box, std::vector<std::vector<Rank>>>> layers;  // by number
  for (HeldTile& held : TilesOf(layout)) {
    auto& tile = layers[held.number];
    tile.first = held.box;
    tile.second.push_back(std::move(held.ranks));
  }
  std::vector<PartialTile> tiles;
  for (auto& [number, tile] : layers) tiles.push_back({tile.first, Pair(tile.second, topology)});
  return tiles;
}

void ShareOut(const std::vector<PartialTile>& tiles, std::vector<Demand>& demands,
              const Topology& topology, Spread spread) {
  Sharing(tiles, demands, topology, spread).Run();
}

}  // namespace lockstep::plan
