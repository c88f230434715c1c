#include "runtime/plan/lowering/traffic.h"

#include <algorithm>
#include <numeric>

namespace lockstep::plan {
namespace {

// The members' parts on a node.
struct NodeParts {
  double members = 0;
  double bytes = 0;
};
std::map<int, NodeParts> PartsByNode(absl::Span<const Rank> team, absl::Span<const double> parts,
                                     const Topology& topology) {
  std::map<int, NodeParts> nodes;
  for (size_t i = 0; i < team.size(); ++i) {
    NodeParts& node = nodes[topology.NodeOf(team[i])];
    ++node.members;
    node.bytes += parts[i];
  }
  return nodes;
}

// Calls visit(the rank's, its flux in a reduce-scatter) and visit(the node's, ...).
template <typename VisitRank, typename VisitNode>
void ForEachOfReduceScatter(absl::Span<const Rank> team, absl::Span<const double> parts,
                            const Topology& topology, VisitRank&& visit_rank,
                            VisitNode&& visit_node) {
  const std::map<int, NodeParts> nodes = PartsByNode(team, parts, topology);
  const double total = std::accumulate(parts.begin(), parts.end(), 0.0);
  const auto other_nodes = static_cast<double>(nodes.size()) - 1;
  for (size_t i = 0; i < team.size(); ++i) {
    const NodeParts& node = nodes.at(topology.NodeOf(team[i]));
    const double sliced = (total - node.bytes) * (node.members - 1) / node.members;
    const double sources = node.members - 1 + other_nodes;
    visit_rank(team[i], Flux{parts[i] * sources + sliced, total - parts[i]});
  }
  if (other_nodes == 0) return;
  for (const auto& [number, node] : nodes) {
    visit_node(number, Flux{node.bytes * other_nodes, total - node.bytes});
  }
}

void AddTo(Flux& sum, const Flux& more) {
  sum.in += more.in;
  sum.out += more.out;
}
Flux Backwards(const Flux& flux) { return {flux.out, flux.in}; }

}  // namespace

double Traffic::BusiestRank() const {
  double busiest = 0;
  for (const Flux& flux : ranks) busiest = std::max(busiest, flux.Busiest());
  return busiest;
}

double Traffic::BusiestNode() const {
  double busiest = 0;
  for (const auto& [node, flux] : nodes) busiest = std::max(busiest, flux.Busiest());
  return busiest;
}

Flux& Traffic::Of(Rank rank) {
  const auto at = static_cast<size_t>(rank);
  if (ranks.size() <= at) ranks.resize(at + 1);
  return ranks[at];
}

void Traffic::Add(const Traffic& other) {
  if (ranks.size() < other.ranks.size()) ranks.resize(other.ranks.size());
  for (size_t i = 0; i < other.ranks.size(); ++i) AddTo(ranks[i], other.ranks[i]);
  for (const auto& [node, flux] : other.nodes) AddTo(nodes[node], flux);
}

void AddReduceScatter(absl::Span<const Rank> team, absl::Span<const double> parts,
                      const Topology& topology, Traffic& traffic) {
  ForEachOfReduceScatter(
      team, parts, topology, [&](Rank rank, const Flux& flux) { AddTo(traffic.Of(rank), flux); },
      [&](int node, const Flux& flux) { AddTo(traffic.nodes[node], flux); });
}

// The same backwards: what was received is sent.
void AddAllGather(absl::Span<const Rank> team, absl::Span<const double> parts,
                  const Topology& topology, Traffic& traffic) {
  ForEachOfReduceScatter(
      team, parts, topology,
      [&](Rank rank, const Flux& flux) { AddTo(traffic.Of(rank), Backwards(flux)); },
      [&](int node, const Flux& flux) { AddTo(traffic.nodes[node], Backwards(flux)); });
}

// Scattered evenly over the nodes, and over the ranks of each, and gathered again.
void AddAllReduce(absl::Span<const Rank> team, double bytes, const Topology& topology,
                  Traffic& traffic) {
  std::vector<double> parts(team.size(), 0);
  const std::map<int, NodeParts> nodes = PartsByNode(team, parts, topology);
  const double of_node = bytes / static_cast<double>(nodes.size());
  for (size_t i = 0; i < team.size(); ++i) {
    parts[i] = of_node / nodes.at(topology.NodeOf(team[i])).members;
  }
  AddReduceScatter(team, parts, topology, traffic);
  AddAllGather(team, parts, topology, traffic);
}

void AddRound(const std::vector<Piece>& round, double element_bytes, const Topology& topology,
              Traffic& traffic) {
  Rank last = -1;
  for (const Piece& piece : round) last = std::max({last, piece.from, piece.to});
  if (last < 0) return;
  traffic.Of(last);
  // By rank, as there may be a million pieces: what it exchanges over a network.
  std::vector<Flux> far(static_cast<size_t>(last + 1));
  const auto add = [&](std::vector<Flux>& all, const Piece& piece) {
    const double bytes = static_cast<double>(piece.count) * element_bytes;
    all[static_cast<size_t>(piece.from)].out += bytes;
    all[static_cast<size_t>(piece.to)].in += bytes;
  };
  for (const Piece& piece : round) {
    add(traffic.ranks, piece);
    if (topology.NodeOf(piece.from) != topology.NodeOf(piece.to)) add(far, piece);
  }
  for (Rank rank = 0; rank <= last; ++rank) {
    const Flux& crossing = far[static_cast<size_t>(rank)];
    if (crossing.Busiest() > 0) AddTo(traffic.nodes[topology.NodeOf(rank)], crossing);
  }
}

double CostModel::LatencyOf(const Traffic& traffic) const {
  return traffic.BusiestNode() > 0 ? network_step_us : step_us;
}

double CostModel::MicrosecondsFor(const Traffic& traffic) const {
  return traffic.BusiestRank() * us_per_byte + traffic.BusiestNode() * network_us_per_byte;
}

}  // namespace lockstep::plan
