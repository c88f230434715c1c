// Who sits where: the ranks of a group, by node, and the rails between the nodes.
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

#include "runtime/base/buffer.h"
#include "runtime/base/ids.h"
#include "runtime/collective/slice.h"

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
  int node() const { return place_of_[static_cast<size_t>(rank_)].node; }
  int local() const { return place_of_[static_cast<size_t>(rank_)].local; }
  const std::vector<Rank>& own_node() const { return nodes_[static_cast<size_t>(node())]; }

  int rails() const { return rails_; }
  size_t one_rail_bytes() const { return one_rail_bytes_; }
  bool has_rail() const { return local() < rails_; }

  int NodeOf(Rank rank) const { return place_of_[static_cast<size_t>(rank)].node; }
  int LocalOf(Rank rank) const { return place_of_[static_cast<size_t>(rank)].local; }
  bool IsNear(Rank rank) const { return NodeOf(rank) == node(); }

  // What of `count` elements crosses on which rail.
  std::vector<Slice> SlicesOf(size_t count, size_t element_bytes) const;
  // What of them crosses on this rank's rail; nothing, after all others' slices, if it has none.
  Slice OwnOf(const std::vector<Slice>& slices) const;
  // The same as counts of this node's ranks: those without a rail have none.
  std::vector<int64_t> LocalCountsOf(const std::vector<Slice>& slices) const;

 private:
  struct Place {
    int node = 0;
    int local = 0;
  };

  const std::vector<std::vector<Rank>> nodes_;
  const Rank rank_;
  const size_t one_rail_bytes_;
  std::vector<Place> place_of_;  // by rank
  int rails_ = 0;
};

}  // namespace lockstep::collective::two_level
