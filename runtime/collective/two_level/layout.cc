#include "runtime/collective/two_level/layout.h"

#include <algorithm>
#include <utility>

namespace lockstep::collective::two_level {

Layout::Layout(std::vector<std::vector<Rank>> nodes, Rank rank, size_t one_rail_bytes)
    : nodes_(std::move(nodes)), rank_(rank), one_rail_bytes_(one_rail_bytes) {
  size_t size = 0;
  size_t smallest = nodes_.front().size();
  for (const auto& node : nodes_) {
    size += node.size();
    smallest = std::min(smallest, node.size());
  }
  rails_ = static_cast<int>(smallest);
  place_of_.resize(size);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (size_t i = 0; i < nodes_[n].size(); ++i) {
      place_of_[static_cast<size_t>(nodes_[n][i])] = {static_cast<int>(n), static_cast<int>(i)};
    }
  }
}

std::vector<Slice> Layout::SlicesOf(size_t count, size_t element_bytes) const {
  std::vector<Slice> slices(static_cast<size_t>(rails_), Slice{count, 0});
  if (count * element_bytes <= one_rail_bytes_) {
    slices[0] = {0, count};
    return slices;
  }
  for (int rail = 0; rail < rails_; ++rail) {
    slices[static_cast<size_t>(rail)] = SliceOf(count, element_bytes, rail, rails_);
  }
  return slices;
}

Slice Layout::OwnOf(const std::vector<Slice>& slices) const {
  if (has_rail()) return slices[static_cast<size_t>(local())];
  return {slices.back().begin + slices.back().count, 0};
}

std::vector<int64_t> Layout::LocalCountsOf(const std::vector<Slice>& slices) const {
  std::vector<int64_t> counts(own_node().size());
  for (size_t i = 0; i < slices.size(); ++i) counts[i] = static_cast<int64_t>(slices[i].count);
  return counts;
}

}  // namespace lockstep::collective::two_level
