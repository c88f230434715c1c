// Which ranks share a node: what lies between two of them is memory, or a network.
#pragma once

#include <utility>
#include <vector>

#include "runtime/base/ids.h"

namespace lockstep::plan {

class Topology {
 public:
  // All ranks on one node.
  Topology() = default;
  // The node of each rank, by rank; ranks beyond them are on node 0.
  explicit Topology(std::vector<int> nodes) : nodes_(std::move(nodes)) {}

  int NodeOf(Rank rank) const {
    const auto i = static_cast<size_t>(rank);
    return i < nodes_.size() ? nodes_[i] : 0;
  }
  const std::vector<int>& nodes() const { return nodes_; }
  bool operator==(const Topology&) const = default;

 private:
  std::vector<int> nodes_;
};

}  // namespace lockstep::plan
