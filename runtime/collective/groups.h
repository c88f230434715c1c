// Equal parts: groups of a world's ranks, and slices of a large operation's elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace lockstep::collective {

// A value type: how a world is split into groups of consecutive ranks. With 6 ranks and 2 groups,
// group 0 is ranks 0, 1, 2 and group 1 is ranks 3, 4, 5.
class Groups {
 public:
  // kInvalidArgument unless `num_groups` divides `world_size` (both positive).
  static StatusOr<Groups> Split(int world_size, int num_groups);

  int world_size() const { return num_groups_ * group_size_; }
  int num_groups() const { return num_groups_; }
  int group_size() const { return group_size_; }

  int GroupOf(Rank world_rank) const { return world_rank / group_size_; }
  Rank RankInGroup(Rank world_rank) const { return world_rank % group_size_; }
  Rank WorldRank(int group, Rank rank_in_group) const {
    return group * group_size_ + rank_in_group;
  }
  // The world ranks of `group`, in order.
  std::vector<Rank> Members(int group) const;

 private:
  Groups(int num_groups, int group_size) : num_groups_(num_groups), group_size_(group_size) {}

  int num_groups_;
  int group_size_;
};

struct Slice {
  size_t begin = 0;
  size_t count = 0;
};

// The slice of `count` elements that rank `rank` of `size` works on. Slices begin at multiples of
// 256 bytes, so that no two ranks write to one line, nor to the pair of lines that are fetched
// together, and vector loops have no rest.
inline Slice SliceOf(size_t count, size_t element_bytes, int rank, int size) {
  const size_t granule = 256 / element_bytes;
  const size_t granules = (count + granule - 1) / granule;
  const auto boundary = [&](int r) {
    const auto i = static_cast<size_t>(r);
    const auto n = static_cast<size_t>(size);
    // granules * i / n without overflow, spread evenly.
    return std::min(count, (granules / n * i + granules % n * i / n) * granule);
  };
  return {boundary(rank), boundary(rank + 1) - boundary(rank)};
}

}  // namespace lockstep::collective
