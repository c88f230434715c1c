#include "runtime/plan/traffic.h"

#include <algorithm>
#include <numeric>

namespace lockstep::plan {
namespace {

template <typename Key>
double BusiestOf(const std::map<Key, Flux>& all) {
  double busiest = 0;
  for (const auto& [key, flux] : all) busiest = std::max(busiest, flux.Busiest());
  return busiest;
}

template <typename Key>
void AddAll(const std::map<Key, Flux>& from, std::map<Key, Flux>& to) {
  for (const auto& [key, flux] : from) {
    to[key].in += flux.in;
    to[key].out += flux.out;
  }
}

// In a ring each member passes on all parts but that of the one after it, and gets all but its own.
template <typename Key>
std::map<Key, Flux> Ring(const std::vector<Key>& members, const std::vector<double>& parts) {
  std::map<Key, Flux> all;
  if (members.size() < 2) return all;
  const double total = std::accumulate(parts.begin(), parts.end(), 0.0);
  for (size_t i = 0; i < members.size(); ++i) {
    all[members[i]] = {total - parts[i], total - parts[(i + 1) % members.size()]};
  }
  return all;
}

Traffic RingTraffic(absl::Span<const Rank> team, absl::Span<const double> parts,
                    const Topology& topology) {
  Traffic traffic;
  traffic.ranks = Ring(std::vector<Rank>(team.begin(), team.end()),
                       std::vector<double>(parts.begin(), parts.end()));
  std::map<int, double> of_nodes;
  for (size_t i = 0; i < team.size(); ++i) of_nodes[topology.NodeOf(team[i])] += parts[i];
  std::vector<int> nodes;
  std::vector<double> node_parts;
  for (const auto& [node, part] : of_nodes) {
    nodes.push_back(node);
    node_parts.push_back(part);
  }
  traffic.nodes = Ring(nodes, node_parts);
  return traffic;
}

}  // namespace

double Traffic::BusiestRank() const { return BusiestOf(ranks); }
double Traffic::BusiestNode() const { return BusiestOf(nodes); }

void Traffic::Add(const Traffic& other) {
  AddAll(other.ranks, ranks);
  AddAll(other.nodes, nodes);
}

Traffic AllGatherTraffic(absl::Span<const Rank> team, absl::Span<const double> parts,
                         const Topology& topology) {
  return RingTraffic(team, parts, topology);
}

// The same ring, run backwards: what was received is sent.
Traffic ReduceScatterTraffic(absl::Span<const Rank> team, absl::Span<const double> parts,
                             const Topology& topology) {
  Traffic traffic = RingTraffic(team, parts, topology);
  for (auto& [rank, flux] : traffic.ranks) std::swap(flux.in, flux.out);
  for (auto& [node, flux] : traffic.nodes) std::swap(flux.in, flux.out);
  return traffic;
}

Traffic AllReduceTraffic(absl::Span<const Rank> team, double bytes, const Topology& topology) {
  const std::vector<double> parts(team.size(), bytes / static_cast<double>(team.size()));
  Traffic traffic;
  traffic.ranks = RingTraffic(team, parts, topology).ranks;
  std::map<int, double> nodes;
  for (Rank rank : team) nodes[topology.NodeOf(rank)] = 0;
  if (nodes.size() > 1) {
    const auto n = static_cast<double>(nodes.size());
    for (const auto& [node, unused] : nodes) {
      traffic.nodes[node] = {bytes * (n - 1) / n, bytes * (n - 1) / n};
    }
  }
  Traffic twice = traffic;
  twice.Add(traffic);
  return twice;
}

Traffic RoundTraffic(const std::vector<Piece>& round, double element_bytes,
                     const Topology& topology) {
  Rank last = -1;
  for (const Piece& piece : round) last = std::max({last, piece.from, piece.to});
  // By rank, as there may be a million pieces: what it exchanges with any, and over a network.
  std::vector<Flux> any(static_cast<size_t>(last + 1));
  std::vector<Flux> far(static_cast<size_t>(last + 1));
  const auto add = [&](std::vector<Flux>& all, const Piece& piece) {
    const double bytes = static_cast<double>(piece.count) * element_bytes;
    all[static_cast<size_t>(piece.from)].out += bytes;
    all[static_cast<size_t>(piece.to)].in += bytes;
  };
  for (const Piece& piece : round) {
    add(any, piece);
    if (topology.NodeOf(piece.from) != topology.NodeOf(piece.to)) add(far, piece);
  }
  Traffic traffic;
  for (Rank rank = 0; rank <= last; ++rank) {
    const Flux& own = any[static_cast<size_t>(rank)];
    if (own.Busiest() > 0) traffic.ranks.emplace_hint(traffic.ranks.end(), rank, own);
    const Flux& crossing = far[static_cast<size_t>(rank)];
    if (crossing.Busiest() == 0) continue;
    Flux& node = traffic.nodes[topology.NodeOf(rank)];
    node.in += crossing.in;
    node.out += crossing.out;
  }
  return traffic;
}

double CostModel::MicrosecondsFor(const Traffic& traffic, double copied_bytes) const {
  const double node = traffic.BusiestNode();
  return (node > 0 ? network_step_us : step_us) + traffic.BusiestRank() * us_per_byte +
         node * network_us_per_byte + copied_bytes * copy_us_per_byte;
}

}  // namespace lockstep::plan
