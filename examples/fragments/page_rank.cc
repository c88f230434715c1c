// PageRank: which of Debian's packages of Python modules many others need. The graph is sent once,
// each worker's part to it; what moves in a step is what each node gives to its neighbours.
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "examples/fragments/calls.h"
#include "examples/fragments/programs.h"

namespace lockstep::examples::fragments {

StatusOr<Ranking> PageRank(Session& session, const Graph& graph, double damping, double tolerance) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment page_rank, ReadFragment("page_rank.mlir"));
  const int64_t nodes = graph.nodes();
  // A worker needs to know what links to its nodes.
  LOCKSTEP_ASSIGN_OR_RETURN(const PlacedGraph placed, Place(session, graph.Reversed()));

  // All begin alike.
  const double alike = 1 / static_cast<double>(nodes);
  double of_sinks = 0;
  std::vector<int32_t> links;
  std::vector<double> first_shares;
  for (int64_t node = 0; node < nodes; ++node) {
    const int64_t degree = graph.degree(node);
    links.push_back(static_cast<int32_t>(degree));
    first_shares.push_back(alike / static_cast<double>(std::max<int64_t>(1, degree)));
    if (degree == 0) of_sinks += alike;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const DRef placed_links, session.Place(Vector(links), Split::kRows));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef ranks,
                            session.Place(Vector(std::vector<double>(nodes, alike)), Split::kRows));
  LOCKSTEP_ASSIGN_OR_RETURN(DRef shares, session.Place(Vector(first_shares), Split::kRows));
  FragmentInput sinks(Number(of_sinks));

  Ranking ranking;
  for (double change = 1; change > tolerance; ++ranking.steps) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<DRef> next,
                              session.Execute(page_rank,
                                              {{placed.counts, Split::kRows},
                                               {placed.links, Split::kRows},
                                               {placed_links, Split::kRows},
                                               {ranks, Split::kRows},
                                               shares,
                                               sinks,
                                               damping},
                                              {{Combine::kRows, Shape{nodes}},
                                               {Combine::kRows, Shape{nodes}},
                                               {Combine::kAdd},
                                               {Combine::kAdd}}));
    ranks = next[0];
    shares = next[1];
    sinks = next[2];
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<double> all, Collect(session, next[3]));
    change = all[0];
  }
  LOCKSTEP_ASSIGN_OR_RETURN(ranking.ranks, Collect(session, ranks));
  return ranking;
}

Status ShowPageRank(Session& session) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Packages packages, ReadPackages());
  LOCKSTEP_ASSIGN_OR_RETURN(const Ranking ranking, PageRank(session, packages.needs, 0.85, 1e-12));
  std::vector<size_t> order(ranking.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  constexpr size_t kShown = 10;
  std::partial_sort(order.begin(), order.begin() + kShown, order.end(),
                    [&](size_t a, size_t b) { return ranking.ranks[a] > ranking.ranks[b]; });
  std::printf("Of %zu packages, those that others rest on most (%d steps):\n", order.size(),
              ranking.steps);
  for (size_t i = 0; i < kShown; ++i) {
    std::printf("  %.4f  %s\n", ranking.ranks[order[i]], packages.names[order[i]].c_str());
  }
  return OkStatus();
}

}  // namespace lockstep::examples::fragments
