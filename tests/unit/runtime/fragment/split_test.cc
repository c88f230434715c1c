#include "runtime/fragment/split.h"

#include <gtest/gtest.h>

namespace lockstep::fragment {
namespace {

TEST(SplitTest, NamesAreReadBack) {
  for (int i = 0; i < kSplitCount; ++i) {
    const auto split = static_cast<Split>(i);
    EXPECT_EQ(*ParseSplit(Name(split)), split);
  }
  for (int i = 0; i < kCombineCount; ++i) {
    const auto combine = static_cast<Combine>(i);
    EXPECT_EQ(*ParseCombine(Name(combine)), combine);
  }
  EXPECT_EQ(Message(ParseSplit("row").status()),
            "\"row\" is no split; there are rows, columns, none, placed");
  EXPECT_FALSE(ParseCombine("sum").ok());
}

TEST(SplitTest, SplitsAndCombinesArePlacements) {
  EXPECT_EQ(PlacementFor(Split::kRows), plan::Placement::Shard(0));
  EXPECT_EQ(PlacementFor(Split::kColumns), plan::Placement::Shard(1));
  EXPECT_EQ(PlacementFor(Split::kNone), plan::Placement::Replicate());
  EXPECT_EQ(PlacementFor(Split::kAsPlaced), std::nullopt);
  EXPECT_EQ(PlacementFor(Combine::kRows), plan::Placement::Shard(0));
  EXPECT_EQ(PlacementFor(Combine::kColumns), plan::Placement::Shard(1));
  EXPECT_EQ(PlacementFor(Combine::kAdd), plan::Placement::Partial(Reduction::kSum));
  EXPECT_EQ(PlacementFor(Combine::kMul), plan::Placement::Partial(Reduction::kProd));
  EXPECT_EQ(PlacementFor(Combine::kMin), plan::Placement::Partial(Reduction::kMin));
  EXPECT_EQ(PlacementFor(Combine::kMax), plan::Placement::Partial(Reduction::kMax));
  EXPECT_EQ(PlacementFor(Combine::kNone), std::nullopt);
}

}  // namespace
}  // namespace lockstep::fragment
