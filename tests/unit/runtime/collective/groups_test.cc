#include "runtime/collective/groups.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lockstep::collective {
namespace {

TEST(GroupsTest, SplitsAWorldIntoConsecutiveRanks) {
  const StatusOr<Groups> groups = Groups::Split(6, 2);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ(groups->world_size(), 6);
  EXPECT_EQ(groups->group_size(), 3);
  EXPECT_EQ(groups->Members(0), (std::vector<Rank>{0, 1, 2}));
  EXPECT_EQ(groups->Members(1), (std::vector<Rank>{3, 4, 5}));
  for (Rank r = 0; r < 6; ++r) {
    EXPECT_EQ(groups->WorldRank(groups->GroupOf(r), groups->RankInGroup(r)), r);
  }
}

TEST(GroupsTest, OneGroupIsTheWorldAndOneRankIsAGroup) {
  EXPECT_EQ(Groups::Split(4, 1)->Members(0), (std::vector<Rank>{0, 1, 2, 3}));
  EXPECT_EQ(Groups::Split(4, 4)->Members(2), (std::vector<Rank>{2}));
}

TEST(GroupsTest, RefusesWhatDoesNotDivide) {
  const std::pair<int, int> cases[] = {{6, 4}, {6, 0}, {6, -1}, {2, 3}, {0, 1}};
  for (const auto& [world, groups] : cases) {
    EXPECT_EQ(Groups::Split(world, groups).status().code(), StatusCode::kInvalidArgument)
        << world << " ranks, " << groups << " groups";
  }
}

}  // namespace
}  // namespace lockstep::collective
