#include "examples/fragments/graph.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/types/span.h"
#include "examples/fragments/calls.h"
#include "examples/support/find_file.h"
#include "runtime/base/shape.h"

namespace lockstep::examples::fragments {

Graph Graph::Of(const std::vector<std::vector<int32_t>>& links) {
  Graph graph;
  for (const std::vector<int32_t>& of_node : links) {
    graph.links.insert(graph.links.end(), of_node.begin(), of_node.end());
    graph.begins.push_back(static_cast<int64_t>(graph.links.size()));
  }
  return graph;
}

Graph Graph::Reversed() const {
  std::vector<std::vector<int32_t>> reversed(static_cast<size_t>(nodes()));
  for (int64_t node = 0; node < nodes(); ++node) {
    for (int64_t i = begins[node]; i < begins[node + 1]; ++i) {
      reversed[links[i]].push_back(static_cast<int32_t>(node));
    }
  }
  return Of(reversed);
}

Graph Graph::Undirected() const {
  const Graph reversed = Reversed();
  std::vector<std::vector<int32_t>> both(static_cast<size_t>(nodes()));
  for (const Graph* graph : {this, &reversed}) {
    for (int64_t node = 0; node < nodes(); ++node) {
      both[node].insert(both[node].end(), graph->links.begin() + graph->begins[node],
                        graph->links.begin() + graph->begins[node + 1]);
    }
  }
  return Of(both);
}

StatusOr<Packages> ReadPackages() {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path,
                            FindFile("examples/fragments/data/debian_python.txt"));
  std::ifstream file(path);
  Packages packages;
  std::vector<std::vector<int32_t>> needs;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    fields >> packages.names.emplace_back();
    needs.emplace_back();
    for (int32_t other = 0; fields >> other;) needs.back().push_back(other);
  }
  const auto nodes = static_cast<int32_t>(needs.size());
  for (const std::vector<int32_t>& of_one : needs) {
    for (const int32_t other : of_one) {
      if (other < 0 || other >= nodes) return InvalidArgument(path, " has no line ", other);
    }
  }
  packages.needs = Graph::Of(needs);
  return packages;
}

StatusOr<PlacedGraph> Place(Session& session, const Graph& graph) {
  const int workers = session.num_workers();
  std::vector<int32_t> counts;
  for (int64_t node = 0; node < graph.nodes(); ++node) {
    counts.push_back(static_cast<int32_t>(graph.degree(node)));
  }
  // The links of each worker's nodes lie one after the other.
  const auto links_of = [&](int worker) {
    const Part part = EvenPart(graph.nodes(), workers, worker);
    return absl::MakeConstSpan(graph.links)
        .subspan(
            static_cast<size_t>(graph.begins[part.begin]),
            static_cast<size_t>(graph.begins[part.begin + part.count] - graph.begins[part.begin]));
  };
  size_t most = 1;
  for (int worker = 0; worker < workers; ++worker) most = std::max(most, links_of(worker).size());
  std::vector<int32_t> parts(static_cast<size_t>(workers) * most, 0);
  for (int worker = 0; worker < workers; ++worker) {
    const auto links = links_of(worker);
    std::copy(links.begin(), links.end(), parts.begin() + worker * static_cast<int64_t>(most));
  }
  PlacedGraph placed;
  LOCKSTEP_ASSIGN_OR_RETURN(placed.counts, session.Place(Vector(counts), Split::kRows));
  LOCKSTEP_ASSIGN_OR_RETURN(placed.links, session.Place(Vector(parts), Split::kRows));
  return placed;
}

}  // namespace lockstep::examples::fragments
