#include "runtime/collective/two_level/layout.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/collective/checks.h"

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
  position_of_.resize(size);
  for (size_t n = 0; n < nodes_.size(); ++n) {
    for (size_t i = 0; i < nodes_[n].size(); ++i) {
      position_of_[static_cast<size_t>(nodes_[n][i])] = {static_cast<int>(n), static_cast<int>(i)};
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

RailPacking::RailPacking(const Layout& layout, Counts counts, size_t element_bytes)
    : layout_(layout), counts_(counts), element_bytes_(element_bytes) {
  for (const auto& node : layout_.nodes()) {
    size_t count = 0;
    for (const Rank rank : node) count += static_cast<size_t>(counts[static_cast<size_t>(rank)]);
    total_ += count;
    segment_counts_.push_back(count);
    slices_.push_back(layout_.SlicesOf(count, element_bytes));
  }
}

std::vector<int64_t> RailPacking::own_counts() const {
  std::vector<int64_t> own;
  for (const Rank rank : layout_.own_node()) own.push_back(counts_[static_cast<size_t>(rank)]);
  return own;
}

std::vector<int64_t> RailPacking::RailCounts() const {
  std::vector<int64_t> counts;
  for (const auto& slices : slices_) {
    counts.push_back(static_cast<int64_t>(slices[static_cast<size_t>(layout_.local())].count));
  }
  return counts;
}

Slice RailPacking::RailSlice() const {
  if (!layout_.has_rail()) return {total_, 0};
  const auto rail = static_cast<size_t>(layout_.local());
  return {PackedOffset(rail, 0), static_cast<size_t>(SumOf(RailCounts()))};
}

std::vector<int64_t> RailPacking::PackedCounts() const {
  std::vector<int64_t> counts(layout_.own_node().size());
  for (const auto& slices : slices_) {
    for (size_t rail = 0; rail < slices.size(); ++rail) {
      counts[rail] += static_cast<int64_t>(slices[rail].count);
    }
  }
  return counts;
}

size_t RailPacking::PackedOffset(size_t rail, size_t node) const {
  size_t offset = 0;
  for (size_t r = 0; r <= rail; ++r) {
    for (size_t n = 0; n < slices_.size(); ++n) {
      if (r == rail && n == node) return offset;
      offset += slices_[n][r].count;
    }
  }
  return offset;
}

template <typename Move>
void RailPacking::ForEachStretch(Move move) const {
  for (size_t n = 0; n < slices_.size(); ++n) {
    size_t begin = 0;  // of the rank's part in the segment
    for (const Rank rank : layout_.nodes()[n]) {
      const size_t end = begin + static_cast<size_t>(counts_[static_cast<size_t>(rank)]);
      const auto by_rank = static_cast<size_t>(OffsetOf(counts_, rank));
      for (size_t rail = 0; rail < slices_[n].size(); ++rail) {
        const Slice& slice = slices_[n][rail];
        const size_t from = std::max(begin, slice.begin);
        const size_t to = std::min(end, slice.begin + slice.count);
        if (from >= to) continue;
        move(by_rank + from - begin, PackedOffset(rail, n) + from - slice.begin, to - from);
      }
      begin = end;
    }
  }
}

void RailPacking::Pack(const void* by_rank, void* packed) const {
  ForEachStretch([&](size_t from, size_t to, size_t count) {
    std::memcpy(static_cast<std::byte*>(packed) + to * element_bytes_,
                static_cast<const std::byte*>(by_rank) + from * element_bytes_,
                count * element_bytes_);
  });
}

void RailPacking::Unpack(const void* packed, void* by_rank) const {
  ForEachStretch([&](size_t to, size_t from, size_t count) {
    std::memcpy(static_cast<std::byte*>(by_rank) + to * element_bytes_,
                static_cast<const std::byte*>(packed) + from * element_bytes_,
                count * element_bytes_);
  });
}

}  // namespace lockstep::collective::two_level
