// Which rank is in which node, the rails between the nodes, and how data is cut up for them.
//
//              rail 0   rail 1
//     node 0   rank 0   rank 1   rank 2
//     node 1   rank 3   rank 4
//
// There are as many rails as the smallest node has ranks. Large data crosses in slices, one a rail,
// so that all ranks that can work on it do; small data crosses on rail 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/ids.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/groups.h"

namespace lockstep::collective::two_level {

inline Buffer PartOf(Buffer whole, const Slice& slice) {
  auto* const data = static_cast<std::byte*>(whole.data);
  return {data == nullptr ? nullptr : data + slice.begin * SizeOf(whole.dtype), slice.count,
          whole.dtype};
}
inline ConstBuffer PartOf(ConstBuffer whole, const Slice& slice) {
  return PartOf(Buffer{const_cast<void*>(whole.data), whole.count, whole.dtype}, slice);
}

// Up to this size, data crosses on one rail: working on several takes as many cores, which have to
// be woken first.
inline constexpr size_t kOneRailBytes = size_t{4} << 20;

// Ranks are those of the group.
class Layout {
 public:
  // Every rank is in one of the nodes; `rank` is this one.
  Layout(std::vector<std::vector<Rank>> nodes, Rank rank, size_t one_rail_bytes = kOneRailBytes);

  const std::vector<std::vector<Rank>>& nodes() const { return nodes_; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  // This rank's node, and its place in it.
  int node() const { return position_of_[static_cast<size_t>(rank_)].node; }
  int local() const { return position_of_[static_cast<size_t>(rank_)].local; }
  const std::vector<Rank>& own_node() const { return nodes_[static_cast<size_t>(node())]; }

  int rails() const { return rails_; }
  size_t one_rail_bytes() const { return one_rail_bytes_; }
  bool has_rail() const { return local() < rails_; }

  int NodeOf(Rank rank) const { return position_of_[static_cast<size_t>(rank)].node; }
  int LocalOf(Rank rank) const { return position_of_[static_cast<size_t>(rank)].local; }
  bool IsNear(Rank rank) const { return NodeOf(rank) == node(); }

  // What of `count` elements crosses on which rail.
  std::vector<Slice> SlicesOf(size_t count, size_t element_bytes) const;
  // What of them crosses on this rank's rail; nothing, after all others' slices, if it has none.
  Slice OwnOf(const std::vector<Slice>& slices) const;
  // The same as counts of this node's ranks: those without a rail have none.
  std::vector<int64_t> LocalCountsOf(const std::vector<Slice>& slices) const;

 private:
  struct NodePosition {
    int node = 0;
    int local = 0;
  };

  const std::vector<std::vector<Rank>> nodes_;
  const Rank rank_;
  const size_t one_rail_bytes_;
  std::vector<NodePosition> position_of_;  // by rank
  int rails_ = 0;
};

// How data of all ranks is cut up for the crossing.
//
// A node's segment is what its ranks have, one after the other. Slice j of every segment crosses on
// rail j. Packed, the data lies in the order of the rails: first slice 0 of all segments, in the
// order of the nodes, then slice 1 of all, ...
class RailPacking {
 public:
  // `counts`: elements of each rank of the group.
  RailPacking(const Layout& layout, Counts counts, size_t element_bytes);

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
