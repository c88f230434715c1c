#include "runtime/base/rank_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(RankTextTest, ListsSayRankForOne) {
  EXPECT_EQ(ListRanks({3}), "rank 3");
  EXPECT_EQ(ListRanks({0, 1, 3}), "ranks 0, 1, 3");
}

TEST(RankTextTest, ListsInSentencesEndWithAnd) {
  EXPECT_EQ(ListRanksWithAnd({2}), "rank 2");
  EXPECT_EQ(ListRanksWithAnd({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(ListRanksWithAnd({0, 1, 3}), "ranks 0, 1 and 3");
}

TEST(RankTextTest, RanksAreJoinedToRanges) {
  EXPECT_EQ(RankRanges({}), "");
  EXPECT_EQ(RankRanges({3}), "3");
  EXPECT_EQ(RankRanges({0, 1}), "0, 1");
  EXPECT_EQ(RankRanges({0, 1, 2, 5, 7, 8, 9}), "0-2, 5, 7-9");
  EXPECT_EQ(ListRankRanges({3}), "rank 3");
  EXPECT_EQ(ListRankRanges({0, 1, 2, 5}), "ranks 0-2, 5");
}

}  // namespace
}  // namespace lockstep
