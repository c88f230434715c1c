// How data of all ranks is cut up for the crossing.
//
// A node's segment is what its ranks have, one after the other. Slice j of every segment crosses on
// rail j. Packed, the data lies in the order of the rails: first slice 0 of all segments, in the
// order of the nodes, then slice 1 of all, ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/collective/communicator.h"
#include "runtime/collective/two_level/layout.h"

namespace lockstep::collective::two_level {

class Parcels {
 public:
  // `counts`: elements of each rank of the group.
  Parcels(const Layout& layout, Counts counts, size_t element_bytes);

  size_t total() const { return total_; }
  // Elements of this node's segment, and what of it crosses on each rail.
  size_t segment_count() const { return segment_counts_[static_cast<size_t>(layout_.node())]; }
  const std::vector<Slice>& slices() const { return slices_[static_cast<size_t>(layout_.node())]; }
  // This node's ranks' parts of the segment.
  std::vector<int64_t> own_counts() const;

  // What crosses on this rank's rail, by node; its place in the packed data.
  std::vector<int64_t> RailCounts() const;
  Slice RailSlice() const;
  // Elements of the packed data on each rail, as counts of this node's ranks.
  std::vector<int64_t> PackedCounts() const;

  // Between the packed order and that of the ranks.
  void Pack(const void* by_rank, void* packed) const;
  void Unpack(const void* packed, void* by_rank) const;

 private:
  // Calls `move(offset by rank, offset packed, count)` for each stretch that lies together in both.
  template <typename Move>
  void ForEachStretch(Move move) const;
  size_t PackedOffset(size_t rail, size_t node) const;

  const Layout& layout_;
  const Counts counts_;
  const size_t element_bytes_;
  size_t total_ = 0;
  std::vector<size_t> segment_counts_;      // by node
  std::vector<std::vector<Slice>> slices_;  // by node, by rail
};

}  // namespace lockstep::collective::two_level
