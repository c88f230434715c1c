#include "runtime/plan/lowering/combining_shares.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "runtime/plan/lowering/traffic.h"

namespace lockstep::plan {
namespace {

// Elements that ranks, or nodes, send and receive, and how bad that is: the busiest counts most.
class Loads {
 public:
  // `scale`: elements that are few.
  Loads(size_t size, double scale) : loads_(size), scale_(scale) {}

  void Receive(size_t which, double more) { Grow(loads_[which].in, more); }
  void Send(size_t which, double more) { Grow(loads_[which].out, more); }

  // By how much the powers grow, if one receives or sends so much more.
  double IfReceived(size_t which, double more) const { return Growth(loads_[which].in, more); }
  double IfSent(size_t which, double more) const { return Growth(loads_[which].out, more); }

  // About the highest load, if the powers were more by `growth`: the norm, of a high degree. Square
  // roots alone, which are the same on every machine.
  double HighestIf(double growth) const {
    double root = std::max(powers_ + growth, 0.0);
    for (int i = 0; i < kSquarings; ++i) root = std::sqrt(root);
    return scale_ * root;
  }

 private:
  double Power(double load) const {
    double power = load / scale_;
    for (int i = 0; i < kSquarings; ++i) power *= power;
    return power;
  }
  double Growth(double load, double more) const { return Power(load + more) - Power(load); }
  void Grow(double& load, double more) {
    powers_ += Growth(load, more);
    load += more;
  }

  static constexpr int kSquarings = 4;  // the 16th power

  std::vector<Flux> loads_;
  double scale_;
  double powers_ = 0;  // of all loads
};

// A team, and the nodes that it is on.
struct TeamOnNodes {
  struct OnNode {
    size_t node = 0;
    double members = 0;

    // What each of them combines of what is combined on another node.
    double Sliced() const { return (members - 1) / members; }
  };
  std::vector<size_t> ranks;
  std::vector<OnNode> nodes;
  std::vector<size_t> node_of;  // by member, in `nodes`
};

class Sharing {
 public:
  Sharing(const std::vector<PartialTile>& tiles, std::vector<Demand>& demands,
          const Topology& topology, Spread spread)
      : demands_(demands), topology_(topology), forwards_(spread == Spread::kForwarded) {
    for (const PartialTile& tile : tiles) {
      std::vector<TeamOnNodes>& teams = teams_.emplace_back();
      for (const std::vector<Rank>& team : tile.teams) teams.push_back(OnNodes(team));
    }
    double total = 0;
    double candidates = 0;
    size_t ranks = 0;
    size_t nodes = 0;
    const auto count = [&](size_t rank) {
      ranks = std::max(ranks, rank + 1);
      nodes = std::max(nodes, NodeOf(rank) + 1);
    };
    for (const Demand& demand : demands_) {
      const std::vector<TeamOnNodes>& teams = teams_[demand.tile];
      ++demands_of_tile_[demand.tile];
      total += static_cast<double>(demand.box.NumElements());
      candidates += static_cast<double>(teams.size() * teams[0].ranks.size());
      for (const TeamOnNodes& team : teams)
        std::for_each(team.ranks.begin(), team.ranks.end(), count);
      for (Rank needer : demand.needers) count(static_cast<size_t>(needer));
    }
    ranks_ = Loads(ranks, total / candidates);
    nodes_ = Loads(nodes, total / candidates);
    num_ranks_ = static_cast<double>(ranks);
  }

  // How many choices it looked at.
  int64_t Run() {
    std::vector<std::vector<Chunk>> chunks;
    for (Demand& demand : demands_) chunks.push_back(ShareOutOne(demand));
    // Where it took long, what is chosen stays.
    const int64_t once = looks_;
    bool improves = once <= kFewLooks;
    for (int pass = 0; pass < kMostPasses && improves; ++pass) {
      improves = false;
      for (size_t i = 0; i < demands_.size(); ++i) {
        if (Improve(demands_[i], chunks[i])) improves = true;
      }
    }
    return looks_;
  }

 private:
  // Where a chunk of a demand is combined.
  struct Choice {
    size_t team = 0;  // of the tile
    size_t member = 0;
    bool operator==(const Choice&) const = default;
  };
  struct Chunk {
    Choice choice;
    int64_t count = 0;
  };
  // A demand, and how many times an element enters each node that needs it, if it is combined on
  // another one.
  struct Needs {
    const Demand& demand;
    std::map<size_t, double> nodes;
    double entering = 0;  // them all
  };

  size_t NodeOf(size_t rank) const {
    return static_cast<size_t>(topology_.NodeOf(static_cast<Rank>(rank)));
  }
  TeamOnNodes OnNodes(const std::vector<Rank>& team) const {
    TeamOnNodes result;
    for (Rank member : team) {
      const auto rank = static_cast<size_t>(member);
      const size_t node = NodeOf(rank);
      auto at = std::find_if(result.nodes.begin(), result.nodes.end(),
                             [&](const TeamOnNodes::OnNode& on) { return on.node == node; });
      if (at == result.nodes.end()) at = result.nodes.insert(at, {node, 0});
      ++at->members;
      result.ranks.push_back(rank);
      result.node_of.push_back(static_cast<size_t>(at - result.nodes.begin()));
    }
    return result;
  }

  // Each of some chunks goes to the rank for which the loads become the least bad.
  std::vector<Chunk> ShareOutOne(Demand& demand) {
    const std::vector<TeamOnNodes>& teams = teams_[demand.tile];
    demand.shares.assign(teams.size(), std::vector<int64_t>(teams[0].ranks.size(), 0));
    const Needs needs = NeedsOf(demand);
    const size_t candidates = teams.size() * teams[0].ranks.size();
    // For each rank some, as far as other demands on the tile leave them to it; one, if they are
    // many.
    constexpr size_t kChunks = 8;
    const size_t each = candidates * candidates > kFewLooks ? 1 : kChunks;
    const size_t wanted = std::max(kChunks, each * candidates / demands_of_tile_[demand.tile]);
    const int64_t elements = demand.box.NumElements();
    const auto number = static_cast<int>(std::min(elements, static_cast<int64_t>(wanted)));
    std::vector<Chunk> chunks;
    for (int i = 0; i < number; ++i) {
      const int64_t count = EvenPart(elements, number, i).count;
      chunks.push_back({Cheapest(needs, static_cast<double>(count)), count});
      Put(demand, needs, chunks.back(), 1);
    }
    return chunks;
  }

  // Chooses again, now that it is known who does what else. Whether anything changed.
  bool Improve(Demand& demand, std::vector<Chunk>& chunks) {
    const Needs needs = NeedsOf(demand);
    bool changed = false;
    for (Chunk& chunk : chunks) {
      Put(demand, needs, chunk, -1);
      const Choice before = chunk.choice;
      chunk.choice = Cheapest(needs, static_cast<double>(chunk.count));
      Put(demand, needs, chunk, 1);
      if (!(chunk.choice == before)) changed = true;
    }
    return changed;
  }

  Needs NeedsOf(const Demand& demand) const {
    Needs needs{demand, {}, 0};
    for (Rank needer : demand.needers) {
      double& times = needs.nodes[NodeOf(static_cast<size_t>(needer))];
      times = forwards_ ? 1 : times + 1;
    }
    for (const auto& [node, times] : needs.nodes) needs.entering += times;
    return needs;
  }

  // What a rank that combines an element receives and sends, and its node over the network.
  struct OfMember {
    Flux rank;
    Flux node;
    bool needs_it = false;
  };
  OfMember LoadsOf(const Needs& needs, const TeamOnNodes& team, size_t member) const {
    const size_t rank = team.ranks[member];
    const TeamOnNodes::OnNode& on = team.nodes[team.node_of[member]];
    const auto other_nodes = static_cast<double>(team.nodes.size() - 1);
    const std::vector<Rank>& needers = needs.demand.needers;
    OfMember loads;
    loads.needs_it = std::binary_search(needers.begin(), needers.end(), static_cast<Rank>(rank));
    const double sent = static_cast<double>(needers.size()) - (loads.needs_it ? 1 : 0);
    const auto here = needs.nodes.find(on.node);
    const double crossing = needs.entering - (here == needs.nodes.end() ? 0 : here->second);
    // What is forwarded leaves the rank, and its node, once.
    loads.rank = {on.members - 1 + other_nodes, forwards_ ? std::min(sent, 1.0) : sent};
    loads.node = {other_nodes, forwards_ ? std::min(crossing, 1.0) : crossing};
    return loads;
  }

  // Counts a chunk, or if the sign is -1, counts it no more.
  void Put(Demand& demand, const Needs& needs, const Chunk& chunk, int sign) {
    const size_t t = chunk.choice.team;
    const size_t member = chunk.choice.member;
    demand.shares[t][member] += sign * chunk.count;
    const TeamOnNodes& team = teams_[demand.tile][t];
    const size_t own = team.node_of[member];
    const double count = sign * static_cast<double>(chunk.count);
    for (size_t m = 0; m < team.ranks.size(); ++m) {
      if (m == member) continue;
      ranks_.Send(team.ranks[m], count);
      const size_t on = team.node_of[m];
      if (on != own) ranks_.Receive(team.ranks[m], count * team.nodes[on].Sliced());
    }
    for (size_t n = 0; n < team.nodes.size(); ++n) {
      if (n != own) nodes_.Send(team.nodes[n].node, count);
    }
    const OfMember loads = LoadsOf(needs, team, member);
    ranks_.Receive(team.ranks[member], count * loads.rank.in);
    ranks_.Send(team.ranks[member], count * loads.rank.out);
    nodes_.Receive(team.nodes[own].node, count * loads.node.in);
    nodes_.Send(team.nodes[own].node, count * loads.node.out);
    for (Rank needer : demand.needers) {
      const auto rank = static_cast<size_t>(needer);
      if (rank != team.ranks[member]) ranks_.Receive(rank, count);
    }
    for (const auto& [node, times] : needs.nodes) {
      if (node != team.nodes[own].node) nodes_.Receive(node, count * times);
    }
  }

  Choice Cheapest(const Needs& needs, double count) {
    const std::vector<TeamOnNodes>& teams = teams_[needs.demand.tile];
    std::optional<Choice> best;
    double least = 0;
    for (Choice choice; choice.team < teams.size(); ++choice.team) {
      const TeamOnNodes& team = teams[choice.team];
      const IfTeam if_team = GrowthIf(team, count);
      for (choice.member = 0; choice.member < team.ranks.size(); ++choice.member) {
        const double cost = CostOf(needs, team, if_team, choice.member, count);
        if (best.has_value() && least <= cost) continue;
        best = choice;
        least = cost;
      }
      looks_ += static_cast<int64_t>(team.ranks.size());
    }
    return *best;
  }

  // How loads grow if a team combines so much, and each of its members but the one that combines
  // it is on another node than that.
  struct IfTeam {
    double ranks = 0;
    double nodes = 0;
    std::vector<double> received_on;  // what of `ranks` is for what ranks of a node receive
  };
  IfTeam GrowthIf(const TeamOnNodes& team, double count) const {
    IfTeam growth;
    growth.received_on.resize(team.nodes.size(), 0);
    for (size_t m = 0; m < team.ranks.size(); ++m) {
      const size_t on = team.node_of[m];
      growth.ranks += ranks_.IfSent(team.ranks[m], count);
      growth.received_on[on] += ranks_.IfReceived(team.ranks[m], count * team.nodes[on].Sliced());
    }
    for (double received : growth.received_on) growth.ranks += received;
    for (const TeamOnNodes::OnNode& on : team.nodes) growth.nodes += nodes_.IfSent(on.node, count);
    return growth;
  }

  double CostOf(const Needs& needs, const TeamOnNodes& team, const IfTeam& if_team, size_t member,
                double count) const {
    const size_t rank = team.ranks[member];
    const size_t own = team.node_of[member];
    const size_t node = team.nodes[own].node;
    const OfMember loads = LoadsOf(needs, team, member);
    const double ranks = if_team.ranks - if_team.received_on[own] - ranks_.IfSent(rank, count) +
                         ranks_.IfReceived(rank, count * loads.rank.in) +
                         ranks_.IfSent(rank, count * loads.rank.out);
    const double nodes = if_team.nodes - nodes_.IfSent(node, count) +
                         nodes_.IfReceived(node, count * loads.node.in) +
                         nodes_.IfSent(node, count * loads.node.out);
    // What moves in all counts a little, lest idle ranks do what need not be done.
    const double moved = (loads.needs_it ? 0 : 1) + loads.node.in + loads.node.out;
    return ranks_.HighestIf(ranks) + nodes_.HighestIf(nodes) + kOfAll * count * moved / num_ranks_;
  }

  static constexpr int kMostPasses = 8;
  static constexpr int64_t kFewLooks = 1 << 14;
  static constexpr double kOfAll = 2;

  std::vector<Demand>& demands_;
  const Topology& topology_;
  const bool forwards_;
  std::vector<std::vector<TeamOnNodes>> teams_;  // by tile
  std::map<size_t, size_t> demands_of_tile_;
  double num_ranks_ = 1;
  Loads ranks_{0, 1};
  Loads nodes_{0, 1};
  int64_t looks_ = 0;
};

}  // namespace

int64_t ShareOut(const std::vector<PartialTile>& tiles, std::vector<Demand>& demands,
                 const Topology& topology, Spread spread) {
  return Sharing(tiles, demands, topology, spread).Run();
}

}  // namespace lockstep::plan
