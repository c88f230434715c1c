#include "runtime/plan/lowering/exchange.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "runtime/plan/lowering/tile_index.h"

namespace lockstep::plan {
namespace {

std::map<int, std::vector<Rank>> ByNode(const std::vector<Rank>& ranks, const Topology& topology) {
  std::map<int, std::vector<Rank>> nodes;
  for (Rank rank : ranks) nodes[topology.NodeOf(rank)].push_back(rank);
  return nodes;
}

// Elements of a flow that one of its holders sends.
struct Share {
  Rank holder = 0;
  int64_t first = 0;
  int64_t count = 0;
};

// Divides the flows of one tile among its holders: `loads[i]` elements for holder i, one after the
// other over the flows' elements. `shares` begins with flow `first_flow`.
void Divide(const std::vector<Flow>& flows, const std::vector<int>& which,
            const std::vector<Rank>& holders, const std::vector<int64_t>& loads, int first_flow,
            std::vector<std::vector<Share>>& shares) {
  size_t holder = 0;
  int64_t left = loads.empty() ? 0 : loads[0];
  for (int flow : which) {
    const int64_t count = flows[static_cast<size_t>(flow)].box.NumElements();
    for (int64_t at = 0; at < count;) {
      while (left == 0) left = loads[++holder];
      const int64_t some = std::min(left, count - at);
      shares[static_cast<size_t>(flow - first_flow)].push_back({holders[holder], at, some});
      at += some;
      left -= some;
    }
  }
}

// How many of `total` elements each holder gets on top of its load, so that the highest load is as
// low as it can be.
std::vector<int64_t> Level(const std::vector<int64_t>& loads, int64_t total) {
  std::vector<int64_t> sorted = loads;
  std::sort(sorted.begin(), sorted.end());
  // The holders [0, some) are filled up to one level.
  size_t some = 1;
  int64_t room = 0;  // until they are all at the next one's load
  while (some < sorted.size() &&
         room + static_cast<int64_t>(some) * (sorted[some] - sorted[some - 1]) <= total) {
    room += static_cast<int64_t>(some) * (sorted[some] - sorted[some - 1]);
    ++some;
  }
  const auto count = static_cast<int64_t>(some);
  const int64_t level = sorted[some - 1] + (total - room) / count;
  int64_t rest = (total - room) % count;
  std::vector<int64_t> more;
  for (int64_t load : loads) {
    const bool is_filled = load <= sorted[some - 1];
    int64_t add = is_filled ? level - load : 0;
    if (is_filled && rest > 0) {
      ++add;
      --rest;
    }
    more.push_back(add);
  }
  return more;
}

class Planner {
 public:
  Planner(const Layout& from, const Layout& to, const Topology& topology, Spread spread)
      : from_(TilesOf(from)), to_(TilesOf(to)), index_(to), topology_(topology), spread_(spread) {
    for (const HeldTile& tile : to_) by_number_[{tile.layer, tile.number}] = &tile;
  }

  std::optional<Exchange> Run(int64_t most_pieces) {
    for (const HeldTile& tile : from_) {
      AddFlowsOf(tile);
      if (static_cast<int64_t>(flows_.size()) > most_pieces) return std::nullopt;
    }
    levels_nodes_ = ShouldLevelNodes();
    for (const TileFlows& tile : tiles_) {
      ShareOut(tile);
      if (pieces_ > most_pieces) return std::nullopt;
    }
    Exchange exchange{std::move(flows_), {}, {}};
    for (std::vector<Piece>& round : rounds_) {
      if (round.empty()) continue;
      exchange.by_rank.emplace_back(round);
      exchange.rounds.push_back(std::move(round));
    }
    return exchange;
  }

 private:
  // What ranks of one node lack, and hold on it; what others lack comes from all holders.
  struct TileFlows {
    const std::vector<Rank>& ranks;  // the holders
    std::map<int, std::vector<Rank>> by_node;
    int first = 0;  // the tile's flows are [first, end)
    int end = 0;
    std::map<int, std::vector<int>> local = {};  // by node
    std::vector<int> remote = {};
  };

  int AddFlow(Flow flow) {
    flows_.push_back(std::move(flow));
    return static_cast<int>(flows_.size()) - 1;
  }

  void AddFlowsOf(const HeldTile& tile) {
    const int first = static_cast<int>(flows_.size());
    TileFlows mine{tile.ranks, ByNode(tile.ranks, topology_), first};
    index_.ForEachOverlapping(tile.box, [&](int number) {
      const HeldTile& target = *by_number_.at({tile.layer, number});
      const Box box = Intersection(tile.box, target.box);
      std::vector<Rank> needers;
      std::set_difference(target.ranks.begin(), target.ranks.end(), tile.ranks.begin(),
                          tile.ranks.end(), std::back_inserter(needers));
      std::vector<Rank> far;
      for (auto& [node, ranks] : ByNode(needers, topology_)) {
        const auto at = mine.by_node.find(node);
        if (at == mine.by_node.end()) {
          far.insert(far.end(), ranks.begin(), ranks.end());
        } else {
          mine.local[node].push_back(AddFlow({box, at->second, ranks}));
        }
      }
      if (far.empty()) return;
      std::sort(far.begin(), far.end());
      mine.remote.push_back(AddFlow({box, tile.ranks, far}));
    });
    mine.end = static_cast<int>(flows_.size());
    if (mine.end > mine.first) tiles_.push_back(std::move(mine));
  }

  int64_t ElementsOf(int flow) const { return flows_[static_cast<size_t>(flow)].box.NumElements(); }
  int64_t ElementsOf(const std::vector<int>& flows) const {
    int64_t count = 0;
    for (int flow : flows) count += ElementsOf(flow);
    return count;
  }

  // Whether the nodes of a tile's holders should send as much as each other to other nodes, though
  // its ranks then do not, because they are not as many on each. Not, if nodes that receive are
  // busier anyway.
  bool ShouldLevelNodes() const {
    std::map<int, int64_t> received;
    std::map<int, int64_t> by_nodes;
    std::map<int, int64_t> by_ranks;
    for (const TileFlows& tile : tiles_) {
      if (tile.remote.empty()) continue;
      int64_t sent = 0;
      for (int flow : tile.remote) {
        for (const auto& [node, ranks] :
             ByNode(flows_[static_cast<size_t>(flow)].needers, topology_)) {
          const auto times = spread_ == Spread::kDirect ? static_cast<int64_t>(ranks.size()) : 1;
          received[node] += times * ElementsOf(flow);
          sent += times * ElementsOf(flow);
        }
      }
      const auto nodes = static_cast<int64_t>(tile.by_node.size());
      for (const auto& [node, ranks] : tile.by_node) by_nodes[node] += (sent + nodes - 1) / nodes;
      const std::vector<int64_t> more = Level(LocalLoads(tile, nullptr), sent);
      for (size_t i = 0; i < more.size(); ++i) by_ranks[topology_.NodeOf(tile.ranks[i])] += more[i];
    }
    const auto most = [](const std::map<int, int64_t>& all) {
      int64_t highest = 0;
      for (const auto& [node, count] : all) highest = std::max(highest, count);
      return highest;
    };
    return most(by_ranks) > std::max(most(by_nodes), most(received));
  }

  // What each holder sends to ranks of its node. Divides it, if there are `shares`.
  std::vector<int64_t> LocalLoads(const TileFlows& tile,
                                  std::vector<std::vector<Share>>* shares) const {
    std::vector<int64_t> loads(tile.ranks.size(), 0);
    for (const auto& [node, flows] : tile.local) {
      const std::vector<Rank>& ranks = tile.by_node.at(node);
      const std::vector<int64_t> parts =
          Level(std::vector<int64_t>(ranks.size(), 0), ElementsOf(flows));
      for (size_t i = 0; i < ranks.size(); ++i) loads[PlaceOf(tile, ranks[i])] += parts[i];
      if (shares != nullptr) Divide(flows_, flows, ranks, parts, tile.first, *shares);
    }
    return loads;
  }
  static size_t PlaceOf(const TileFlows& tile, Rank rank) {
    return static_cast<size_t>(std::lower_bound(tile.ranks.begin(), tile.ranks.end(), rank) -
                               tile.ranks.begin());
  }

  void ShareOut(const TileFlows& tile) {
    std::vector<std::vector<Share>> shares(static_cast<size_t>(tile.end - tile.first));
    const std::vector<int64_t> loads = LocalLoads(tile, &shares);
    if (!tile.remote.empty()) {
      const int64_t total = ElementsOf(tile.remote);
      Divide(flows_, tile.remote, tile.ranks,
             levels_nodes_ ? LevelNodes(tile, loads, total) : Level(loads, total), tile.first,
             shares);
    }
    const auto send = [&](int flow) { Send(flow, shares[static_cast<size_t>(flow - tile.first)]); };
    for (const auto& [node, flows] : tile.local) std::for_each(flows.begin(), flows.end(), send);
    std::for_each(tile.remote.begin(), tile.remote.end(), send);
  }

  // As Level(), but each node sends as much as the others.
  static std::vector<int64_t> LevelNodes(const TileFlows& tile, const std::vector<int64_t>& loads,
                                         int64_t total) {
    const std::vector<int64_t> parts = Level(std::vector<int64_t>(tile.by_node.size(), 0), total);
    std::vector<int64_t> more(loads.size(), 0);
    size_t node = 0;
    for (const auto& [unused, members] : tile.by_node) {
      std::vector<int64_t> own;
      for (Rank rank : members) own.push_back(loads[PlaceOf(tile, rank)]);
      const std::vector<int64_t> added = Level(own, parts[node++]);
      for (size_t i = 0; i < members.size(); ++i) more[PlaceOf(tile, members[i])] = added[i];
    }
    return more;
  }

  void Add(int round, const Piece& piece) {
    if (piece.count == 0) return;
    rounds_[static_cast<size_t>(round)].push_back(piece);
    ++pieces_;
  }

  void Send(int number, const std::vector<Share>& shares) {
    const Flow& flow = flows_[static_cast<size_t>(number)];
    const int count = static_cast<int>(flow.needers.size());
    const int64_t elements = flow.box.NumElements();
    const bool whole = spread_ == Spread::kDirect || count == 1;
    for (int i = 0; i < count; ++i) {
      const Rank needer = flow.needers[static_cast<size_t>(i)];
      const Part chunk = whole ? Part{0, elements} : EvenPart(elements, count, i);
      for (const Share& share : shares) {
        const int64_t first = std::max(share.first, chunk.begin);
        const int64_t end = std::min(share.first + share.count, chunk.begin + chunk.count);
        if (first < end) Add(0, {share.holder, needer, number, first, end - first});
      }
      if (!whole) Forward(number, i, chunk);
    }
  }

  // Chunk `i` goes from the needer that has got it to one of each other node, and from there to
  // all.
  void Forward(int number, int i, const Part& chunk) {
    const Flow& flow = flows_[static_cast<size_t>(number)];
    const Rank owner = flow.needers[static_cast<size_t>(i)];
    for (const auto& [node, ranks] : ByNode(flow.needers, topology_)) {
      Rank source = owner;
      if (node != topology_.NodeOf(owner)) {
        source = ranks[static_cast<size_t>(i) % ranks.size()];
        Add(1, {owner, source, number, chunk.begin, chunk.count});
      }
      for (Rank rank : ranks) {
        if (rank != source) Add(2, {source, rank, number, chunk.begin, chunk.count});
      }
    }
  }

  const std::vector<HeldTile> from_;
  const std::vector<HeldTile> to_;
  const TileIndex index_;
  std::map<std::pair<int, int>, const HeldTile*> by_number_;  // of to_, by layer and number
  const Topology& topology_;
  const Spread spread_;
  std::vector<Flow> flows_;
  std::vector<TileFlows> tiles_;  // that have any
  bool levels_nodes_ = false;
  std::vector<Piece> rounds_[3];
  int64_t pieces_ = 0;
};

}  // namespace

PiecesByRank::PiecesByRank(const std::vector<Piece>& round)
    : sent_(Sort(round, &Piece::from)), received_(Sort(round, &Piece::to)) {}

PiecesByRank::Lists PiecesByRank::Sort(const std::vector<Piece>& round, Rank Piece::*whose) {
  Rank last = -1;
  for (const Piece& piece : round) last = std::max(last, piece.*whose);
  Lists lists;
  lists.ends.resize(static_cast<size_t>(last) + 1, 0);
  // Counted, then summed up to where each rank's begin; those move on to the ends.
  for (const Piece& piece : round) ++lists.ends[static_cast<size_t>(piece.*whose)];
  std::exclusive_scan(lists.ends.begin(), lists.ends.end(), lists.ends.begin(), uint32_t{0});
  lists.indices.resize(round.size());
  for (size_t i = 0; i < round.size(); ++i) {
    lists.indices[lists.ends[static_cast<size_t>(round[i].*whose)]++] = static_cast<uint32_t>(i);
  }
  return lists;
}

absl::Span<const uint32_t> PiecesByRank::Lists::Of(Rank rank) const {
  const auto at = static_cast<size_t>(rank);
  if (at >= ends.size()) return {};
  const uint32_t begin = at == 0 ? 0 : ends[at - 1];
  return absl::MakeConstSpan(indices).subspan(begin, ends[at] - begin);
}

std::optional<Exchange> PlanExchange(const Layout& from, const Layout& to, const Topology& topology,
                                     Spread spread, int64_t most_pieces) {
  return Planner(from, to, topology, spread).Run(most_pieces);
}

}  // namespace lockstep::plan
