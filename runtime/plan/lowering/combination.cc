#include "runtime/plan/lowering/combination.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "runtime/plan/lowering/combining_shares.h"
#include "runtime/plan/lowering/tile_index.h"

namespace lockstep::plan {
namespace {

// What is needed of each tile, by those that need it.
std::vector<Demand> DemandsOn(const std::vector<PartialTile>& tiles, const Layout& to) {
  const std::vector<HeldTile> targets = TilesOf(to);
  std::map<std::pair<int, int>, const HeldTile*> by_number;
  for (const HeldTile& target : targets) by_number[{target.layer, target.number}] = &target;
  const TileIndex index(to);
  std::vector<Demand> demands;
  for (size_t i = 0; i < tiles.size(); ++i) {
    index.ForEachOverlapping(tiles[i].box, [&](int number) {
      const HeldTile& target = *by_number.at({tiles[i].layer, number});
      demands.push_back({i, Intersection(tiles[i].box, target.box), target.ranks});
    });
  }
  return demands;
}

class CombinationPlanner {
 public:
  CombinationPlanner(const std::vector<PartialTile>& tiles, const Topology& topology, Spread spread)
      : tiles_(tiles), topology_(topology), forwards_(spread == Spread::kForwarded) {
    // One for each team, until it is known which combine anything.
    for (const PartialTile& tile : tiles_) {
      first_team_.push_back(teams_.size());
      for (const std::vector<Rank>& team : tile.teams) teams_.push_back({team, {}});
    }
  }

  std::optional<Combination> Run(const std::vector<Demand>& demands, int64_t most_pieces) {
    for (const Demand& demand : demands) {
      AddFlow(demand);
      if (pieces_ > most_pieces) return std::nullopt;
    }
    std::erase_if(teams_, [](const CombiningTeam& team) { return team.pieces.empty(); });
    for (CombiningTeam& team : teams_) SortByMember(team);
    Combination combination{std::move(teams_), {std::move(flows_), {}, {}}};
    for (std::vector<Piece>& round : rounds_) {
      if (round.empty()) continue;
      combination.exchange.by_rank.emplace_back(round);
      combination.exchange.rounds.push_back(std::move(round));
    }
    return combination;
  }

 private:
  // The shares lie in the box one after the other.
  void AddFlow(const Demand& demand) {
    const int number = static_cast<int>(flows_.size());
    Flow& flow = flows_.emplace_back(Flow{demand.box, {}, demand.needers});
    std::vector<Piece> shares;
    int64_t first = 0;
    for (size_t t = 0; t < demand.shares.size(); ++t) {
      CombiningTeam& team = teams_[first_team_[demand.tile] + t];
      for (size_t m = 0; m < team.ranks.size(); ++m) {
        const int64_t count = demand.shares[t][m];
        if (count == 0) continue;
        shares.push_back({team.ranks[m], team.ranks[m], number, first, count});
        team.pieces.push_back(shares.back());
        if (!Needs(flow, team.ranks[m])) flow.holders.push_back(team.ranks[m]);
        first += count;
      }
    }
    std::sort(flow.holders.begin(), flow.holders.end());
    pieces_ += static_cast<int64_t>(shares.size());
    Send(flow, shares);
  }

  static void SortByMember(CombiningTeam& team) {
    const auto place = [&](const Piece& piece) {
      return std::find(team.ranks.begin(), team.ranks.end(), piece.to);
    };
    std::stable_sort(team.pieces.begin(), team.pieces.end(),
                     [&](const Piece& a, const Piece& b) { return place(a) < place(b); });
  }

  static bool Needs(const Flow& flow, Rank rank) {
    return std::binary_search(flow.needers.begin(), flow.needers.end(), rank);
  }
  int NodeOf(Rank rank) const { return topology_.NodeOf(rank); }
  std::vector<int> NodesOf(const std::vector<Rank>& ranks) const {
    std::vector<int> nodes;
    for (Rank rank : ranks) nodes.push_back(NodeOf(rank));
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes;
  }

  void Add(size_t round, const Piece& piece) {
    if (piece.count == 0) return;
    rounds_[round].push_back(piece);
    ++pieces_;
  }

  // From those that have combined their shares to those that need them.
  void Send(const Flow& flow, const std::vector<Piece>& shares) {
    const bool by_all = std::all_of(flow.needers.begin(), flow.needers.end(), [&](Rank needer) {
      return std::any_of(shares.begin(), shares.end(),
                         [&](const Piece& share) { return share.to == needer; });
    });
    const auto others_of = [&](Rank rank) {
      std::vector<Rank> others = flow.needers;
      std::erase(others, rank);
      return others;
    };
    for (const Piece& share : shares) {
      if (!forwards_ || flow.needers.size() == 1) {
        for (Rank needer : flow.needers) {
          if (needer != share.from)
            Add(0, PieceOf(share, share.from, needer, share.first, share.count));
        }
      } else if (by_all && Needs(flow, share.from)) {
        Forward(others_of(share.from), share, 0);
      } else {
        Scatter(flow, share);
      }
    }
  }

  static Piece PieceOf(const Piece& of, Rank from, Rank to, int64_t first, int64_t count) {
    return {from, to, of.flow, first, count};
  }

  // Chunks to the needers, on the same node if there are any, which forward them.
  void Scatter(const Flow& flow, const Piece& share) {
    std::vector<Rank> others;
    std::vector<Rank> near;
    for (Rank needer : flow.needers) {
      if (needer == share.from) continue;
      others.push_back(needer);
      if (NodeOf(needer) == NodeOf(share.from)) near.push_back(needer);
    }
    std::vector<Rank> far;
    std::set_difference(others.begin(), others.end(), near.begin(), near.end(),
                        std::back_inserter(far));
    if (!near.empty() && NodesOf(far).size() > 1) {
      ScatterTo(share, near, near);
      ScatterTo(share, far, far);
    } else {
      ScatterTo(share, near.empty() ? others : near, others);
    }
  }

  // To the owners, which forward to all of `needers`.
  void ScatterTo(const Piece& share, const std::vector<Rank>& owners,
                 const std::vector<Rank>& needers) {
    const auto count = static_cast<int>(needers.size());
    for (int i = 0; i < count; ++i) {
      const Part chunk = EvenPart(share.count, count, i);
      const Rank owner = owners[static_cast<size_t>(i) % owners.size()];
      const Piece part = PieceOf(share, share.from, owner, share.first + chunk.begin, chunk.count);
      Add(0, part);
      Forward(needers, part, static_cast<size_t>(i));
    }
  }

  // From `chunk.to`, which has it, to one of each other node, and from there to all. `combiner` has
  // it as well.
  void Forward(const std::vector<Rank>& needers, const Piece& chunk, size_t turn) {
    const Rank owner = chunk.to;
    for (int node : NodesOf(needers)) {
      std::vector<Rank> ranks;
      for (Rank needer : needers) {
        if (NodeOf(needer) == node) ranks.push_back(needer);
      }
      Rank source = owner;
      if (node != NodeOf(owner)) {
        source = ranks[turn % ranks.size()];
        Add(1, PieceOf(chunk, owner, source, chunk.first, chunk.count));
      }
      for (Rank rank : ranks) {
        if (rank != source) Add(2, PieceOf(chunk, source, rank, chunk.first, chunk.count));
      }
    }
  }

  const std::vector<PartialTile>& tiles_;
  const Topology& topology_;
  const bool forwards_;
  std::vector<size_t> first_team_;  // by tile
  std::vector<CombiningTeam> teams_;
  std::vector<Flow> flows_;
  std::vector<Piece> rounds_[3];
  int64_t pieces_ = 0;
};

}  // namespace

std::vector<int64_t> CombiningTeam::Counts() const {
  std::vector<int64_t> counts(ranks.size(), 0);
  for (const Piece& piece : pieces) {
    const auto at = std::find(ranks.begin(), ranks.end(), piece.to) - ranks.begin();
    counts[static_cast<size_t>(at)] += piece.count;
  }
  return counts;
}

const CombiningTeam* Combination::TeamWith(Rank rank) const {
  for (const CombiningTeam& team : teams) {
    if (std::find(team.ranks.begin(), team.ranks.end(), rank) != team.ranks.end()) return &team;
  }
  return nullptr;
}

std::optional<Combination> PlanCombination(const Layout& from, const Layout& to,
                                           const Topology& topology, Spread spread,
                                           int64_t most_pieces) {
  const std::vector<PartialTile> tiles = PartialTilesOf(from, to, topology);
  std::vector<Demand> demands = DemandsOn(tiles, to);
  // As exchanges count: a rank that is considered costs less than a piece.
  constexpr int64_t kConsideredAsOneLook = 4;
  const int64_t considered = ShareOut(tiles, demands, topology, spread);
  std::optional<Combination> combination =
      CombinationPlanner(tiles, topology, spread).Run(demands, most_pieces);
  if (combination.has_value()) combination->effort = considered / kConsideredAsOneLook;
  return combination;
}

}  // namespace lockstep::plan
