// Connected components: which of Debian's packages of Python modules have to do with each other.
// The graph is sent once; what moves in a step are labels.
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "examples/fragments/calls.h"
#include "examples/fragments/programs.h"

namespace lockstep::examples::fragments {

StatusOr<Components> ConnectedComponents(Session& session, const Graph& graph) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fragment step, ReadFragment("components.mlir"));
  LOCKSTEP_ASSIGN_OR_RETURN(const PlacedGraph placed, Place(session, graph.Undirected()));
  // Each node begins as a component of its own.
  std::vector<int64_t> own(static_cast<size_t>(graph.nodes()));
  std::iota(own.begin(), own.end(), 0);
  LOCKSTEP_ASSIGN_OR_RETURN(DRef labels, session.Place(Vector(own), Split::kRows));

  Components components;
  for (int64_t changed = graph.nodes(); changed > 0; ++components.steps) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const std::vector<DRef> next,
        session.Execute(step, {{placed.counts, Split::kRows}, {placed.links, Split::kRows}, labels},
                        {{Combine::kRows, Shape{graph.nodes()}}, {Combine::kAdd}}));
    labels = next[0];
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> all, Collect<int64_t>(session, next[1]));
    changed = all[0];
  }
  LOCKSTEP_ASSIGN_OR_RETURN(components.labels, Collect<int64_t>(session, labels));
  return components;
}

Status ShowComponents(Session& session) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Packages packages, ReadPackages());
  LOCKSTEP_ASSIGN_OR_RETURN(const Components components,
                            ConnectedComponents(session, packages.needs));
  std::map<int64_t, int> sizes;
  for (const int64_t label : components.labels) ++sizes[label];
  const auto alone = std::count_if(sizes.begin(), sizes.end(),
                                   [](const auto& component) { return component.second == 1; });
  std::vector<std::pair<int, int64_t>> largest;
  for (const auto& [label, size] : sizes) largest.emplace_back(size, -label);
  std::sort(largest.rbegin(), largest.rend());
  std::printf(
      "%zu packages in %zu components, %td of them of one package (%d steps); the largest:\n",
      packages.names.size(), sizes.size(), alone, components.steps);
  for (size_t i = 0; i < std::min<size_t>(5, largest.size()); ++i) {
    std::printf("  %5d packages, as %s\n", largest[i].first,
                packages.names[static_cast<size_t>(-largest[i].second)].c_str());
  }
  return OkStatus();
}

}  // namespace lockstep::examples::fragments
