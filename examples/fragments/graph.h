// Graphs as CSR arrays, and how they are dealt out to workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::examples::fragments {

// For each node, in order, the numbers of the nodes that it links to.
struct Graph {
  std::vector<int64_t> begins = {0};  // [nodes + 1]: where each node's begin in `links`
  std::vector<int32_t> links;

  int64_t nodes() const { return static_cast<int64_t>(begins.size()) - 1; }
  int64_t degree(int64_t node) const { return begins[node + 1] - begins[node]; }
  static Graph Of(const std::vector<std::vector<int32_t>>& links);

  // Each link the other way round.
  Graph Reversed() const;
  // Each link both ways.
  Graph Undirected() const;
};

// Debian's packages of Python modules, each of which links to those that it needs
// (data/README.md).
struct Packages {
  std::vector<std::string> names;
  Graph needs;
};
StatusOr<Packages> ReadPackages();

// A graph on the workers: each has an even part of the nodes, and their links.
struct PlacedGraph {
  DRef counts;  // int32 [nodes]: how many links each node has
  // int32 [workers * most links of a worker]: a worker's part begins with its nodes' links.
  DRef links;
};
StatusOr<PlacedGraph> Place(Session& session, const Graph& graph);

}  // namespace lockstep::examples::fragments
