#include "runtime/collective/groups.h"

#include <numeric>

namespace lockstep::collective {

StatusOr<Groups> Groups::Split(int world_size, int num_groups) {
  if (world_size < 1) return InvalidArgument("a world has at least one rank, not ", world_size);
  if (num_groups < 1 || world_size % num_groups != 0) {
    return InvalidArgument(world_size, " ranks cannot be split into ", num_groups,
                           " equal groups; the number of groups must divide the number of ranks");
  }
  return Groups(num_groups, world_size / num_groups);
}

std::vector<Rank> Groups::Members(int group) const {
  std::vector<Rank> members(static_cast<size_t>(group_size_));
  std::iota(members.begin(), members.end(), WorldRank(group, 0));
  return members;
}

}  // namespace lockstep::collective
