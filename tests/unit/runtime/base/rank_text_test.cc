#include "runtime/base/rank_text.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace lockstep {
namespace {

TEST(RankTextTest, RanksAreJoinedToRanges) {
  EXPECT_EQ(RankRanges({}), "");
  EXPECT_EQ(RankRanges({3}), "3");
  EXPECT_EQ(RankRanges({0, 1}), "0, 1");
  EXPECT_EQ(RankRanges({0, 1, 2, 5, 7, 8, 9}), "0-2, 5, 7-9");
  EXPECT_EQ(RankRanges({7, 8, 3, 4, 5, 9}), "7, 8, 3-5, 9") << "in the order given";
}

TEST(RankTextTest, ListsSayRankForOne) {
  EXPECT_EQ(ListRanks({3}), "rank 3");
  EXPECT_EQ(ListRanks({0, 1}), "ranks 0, 1");
  EXPECT_EQ(ListRanks({0, 1, 2, 5}), "ranks 0-2, 5");
}

TEST(RankTextTest, ListsOfThousandsAreShort) {
  std::vector<Rank> ranks(1000);
  std::iota(ranks.begin(), ranks.end(), 0);
  EXPECT_EQ(ListRanks(ranks), "ranks 0-999");
  for (Rank& rank : ranks) rank *= 2;
  EXPECT_EQ(ListRanks(ranks),
            "ranks 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30 and 984 more");
  ranks.resize(kMostRankParts);
  EXPECT_EQ(RankRanges(ranks), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30");
}

}  // namespace
}  // namespace lockstep
