// Groups: the world's ranks split into equal parts of consecutive ranks.
//
// With 6 ranks and 2 groups, group 0 is ranks 0, 1, 2 and group 1 is ranks 3, 4, 5.
#pragma once

#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace lockstep::collective {

// A value type: how a world is split.
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

}  // namespace lockstep::collective
