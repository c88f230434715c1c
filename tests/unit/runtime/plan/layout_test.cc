#include "runtime/plan/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Mesh TwoByThree() { return *Mesh::Make({{"x", 2}, {"y", 3}}, {5, 4, 3, 2, 1, 0}); }

TEST(MeshTest, IndicesAreInRowMajorOrder) {
  const Mesh mesh = TwoByThree();
  EXPECT_EQ(mesh.size(), 6);
  EXPECT_EQ(mesh.IndexOf(4), 1);
  EXPECT_EQ(mesh.IndexOf(2), 3);
  EXPECT_EQ(mesh.IndexOf(6), std::nullopt);
  EXPECT_EQ(mesh.IndexOf(-1), std::nullopt);
  EXPECT_EQ(mesh.Coordinate(3, 0), 1);
  EXPECT_EQ(mesh.Coordinate(3, 1), 0);
  EXPECT_EQ(mesh.FindAxis("y"), 1);
  EXPECT_EQ(mesh.FindAxis("z"), std::nullopt);
  EXPECT_EQ(mesh.ToString(), "x=2,y=3 {5, 4, 3, 2, 1, 0}");
}

TEST(MeshTest, SlicesAreAlongTheAxesThatAreGiven) {
  const Mesh mesh = TwoByThree();
  EXPECT_THAT(mesh.Slice(4, {1}), ElementsAre(3, 4, 5));
  EXPECT_THAT(mesh.Slice(4, {0}), ElementsAre(1, 4));
  EXPECT_THAT(mesh.Slice(4, {0, 1}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(mesh.Slice(4, {}), ElementsAre(4));
  EXPECT_THAT(mesh.Slices({1}), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_THAT(mesh.Slices({0}),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
}

TEST(MeshTest, OtherViewsOfTheSameRanks) {
  const Mesh mesh = TwoByThree();
  EXPECT_EQ(mesh.WithAxisOrder({1, 0}).ToString(), "y=3,x=2 {5, 2, 4, 1, 3, 0}");
  EXPECT_EQ(mesh.FirstAlong({1}).ToString(), "x=2,y=1 {5, 2}");
  EXPECT_EQ(mesh.FirstAlong({1}).WithoutUnitAxes().ToString(), "x=2 {5, 2}");
  EXPECT_EQ(mesh.FirstAlong({0, 1}).WithoutUnitAxes().ToString(), "x=1 {5}");
}

TEST(MeshTest, WhatIsNoMeshIsRefused) {
  const auto message = [](std::vector<MeshAxis> axes, std::vector<Rank> ranks) {
    const StatusOr<Mesh> mesh = Mesh::Make(std::move(axes), std::move(ranks));
    EXPECT_EQ(mesh.status().code(), StatusCode::kInvalidArgument);
    return Message(mesh.status());
  };
  EXPECT_THAT(message({}, {}), HasSubstr("1 to 8 axes, not 0"));
  EXPECT_THAT(message({{"", 1}}, {0}), HasSubstr("axis 0 of the mesh has no name"));
  EXPECT_THAT(message({{std::string("a\0b", 3), 1}}, {0}),
              HasSubstr("the name of axis 0 of the mesh has a zero byte"));
  EXPECT_THAT(message({{"x", 1}, {"x", 1}}, {0}), HasSubstr("two axes with the name \"x\""));
  EXPECT_THAT(message({{"x", 0}}, {}), HasSubstr("has the size 0"));
  EXPECT_THAT(message({{"x", 2}}, {0, 1, 2}), HasSubstr("2 places, and 3 ranks"));
  EXPECT_THAT(message({{"x", 2}}, {1, 1}), HasSubstr("names rank 1 twice"));
  EXPECT_THAT(message({{"x", 2}}, {-1, 1}), HasSubstr("names the rank -1"));
  EXPECT_THAT(message({{"x", 1 << 30}, {"y", 1 << 30}, {"z", 1 << 30}}, {0}),
              HasSubstr("at most 65536 ranks"));
}

TEST(PlacementTest, TextsAreReadAsTheyAreWritten) {
  for (const Placement& placement :
       {Placement::Replicate(), Placement::Shard(3), Placement::Shard(1, {3, 0, 5}),
        Placement::Shard(0, {7}), Placement::Partial(Reduction::kMax)}) {
    EXPECT_EQ(*ParsePlacement(placement.ToString()), placement) << placement.ToString();
  }
  EXPECT_EQ(*ParsePlacement("R"), Placement::Replicate());
  EXPECT_EQ(*ParsePlacement("S(1)"), Placement::Shard(1));
  EXPECT_EQ(Placement::Shard(1, {3, 0, 5}).ToString(), "shard(1: 3, 0, 5)");
  EXPECT_EQ(*ParsePlacement("S(1:3,0,  5)"), Placement::Shard(1, {3, 0, 5}));
  EXPECT_EQ(*ParsePlacement("P(sum)"), Placement::Partial(Reduction::kSum));
  for (const char* text :
       {"", "r", "shard", "shard()", "shard(-1)", "shard(1x)", "S(99999999999)", "partial(mean)",
        "partial", "shard(1", "shard(: 1)", "shard(0:)", "shard(0: 1,)", "shard(0: ,1)",
        "shard(0: 1 2)", "shard(0: -1)", "shard(0, 1)", "shard(0: 9223372036854775808)"}) {
    EXPECT_EQ(ParsePlacement(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(LayoutTest, TilesAreDealtOutAsEvenlyAsPossible) {
  const Layout layout = *Layout::Make({7, 2}, DType::kFloat32, TwoByThree(),
                                      {Placement::Replicate(), Placement::Shard(0)});
  EXPECT_EQ(layout.TileAt(0), (Box{{0, 0}, {3, 2}}));
  EXPECT_EQ(layout.TileAt(1), (Box{{3, 0}, {2, 2}}));
  EXPECT_EQ(layout.TileAt(5), (Box{{5, 0}, {2, 2}}));
  EXPECT_EQ(layout.largest_tile(), layout.TileAt(0));
  EXPECT_EQ(layout.TileNumberAt(4), 1);
  EXPECT_EQ(layout.LayerAt(4), 0);
  EXPECT_EQ(layout.ToString(),
            "float32[7, 2] on x=2,y=3 {5, 4, 3, 2, 1, 0}: x=replicate, y=shard(0)");
}

// The first axis deals out the dimension, the second what each coordinate has got.
TEST(LayoutTest, TwoAxesOfOneDimensionAreNested) {
  const Layout layout =
      *Layout::Make({8}, DType::kInt8, TwoByThree(), {Placement::Shard(0), Placement::Shard(0)});
  std::vector<int64_t> begins;
  std::vector<int64_t> counts;
  for (int index = 0; index < 6; ++index) {
    begins.push_back(layout.TileAt(index).begin[0]);
    counts.push_back(layout.TileAt(index).extents[0]);
  }
  EXPECT_THAT(begins, ElementsAre(0, 2, 3, 4, 6, 7));
  EXPECT_THAT(counts, ElementsAre(2, 1, 1, 2, 1, 1));
}

TEST(PlacementTest, GivenExtentsAreComparedByTheirNumbers) {
  EXPECT_EQ(Placement::Shard(0, {1, 2}), Placement::Shard(0, {1, 2}));
  EXPECT_NE(Placement::Shard(0, {1, 2}), Placement::Shard(0, {2, 1}));
  EXPECT_NE(Placement::Shard(0, {1, 2}), Placement::Shard(1, {1, 2}));
  EXPECT_NE(Placement::Shard(0, {2, 2}), Placement::Shard(0));
}

TEST(LayoutTest, TilesAreDealtOutByGivenExtents) {
  const Layout layout = *Layout::Make({8, 3}, DType::kInt8, TwoByThree(),
                                      {Placement::Shard(1), Placement::Shard(0, {3, 0, 5})});
  EXPECT_EQ(layout.TileAt(0), (Box{{0, 0}, {3, 2}}));
  EXPECT_EQ(layout.TileAt(4), (Box{{3, 2}, {0, 1}}));
  EXPECT_EQ(layout.TileAt(5), (Box{{3, 2}, {5, 1}}));
  EXPECT_EQ(layout.largest_tile(), (Box{{3, 0}, {5, 2}})) << "not that of the first";
  EXPECT_EQ(layout.ToString(),
            "int8[8, 3] on x=2,y=3 {5, 4, 3, 2, 1, 0}: x=shard(1), y=shard(0: 3, 0, 5)");
}

TEST(LayoutTest, GivenExtentsThatCannotBeAreRefusedWithTheReason) {
  const auto message = [](int64_t rows, const Placement& x, const Placement& y) {
    const auto layout = Layout::Make({rows, 6}, DType::kInt8, TwoByThree(), {x, y});
    EXPECT_EQ(layout.status().code(), StatusCode::kInvalidArgument);
    return Message(layout.status());
  };
  const auto given = [](std::vector<int64_t> extents) {
    return Placement::Shard(0, std::move(extents));
  };
  const Placement all = Placement::Replicate();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(message(8, all, given({8})),
              HasSubstr("axis \"y\" has 3 coordinates, and 1 extents of dimension 0"));
  EXPECT_THAT(message(8, all, given({})), HasSubstr("and 0 extents"));
  EXPECT_THAT(message(8, given({9, -1}), all),
              HasSubstr("the extents along axis \"x\" add up to more than 8"));
  EXPECT_THAT(message(8, given({-1, 9}), all),
              HasSubstr("coordinate 0 of axis \"x\" has the extent -1"));
  EXPECT_THAT(message(8, all, given({2, kMost, kMost})), HasSubstr("add up to more than 8"));
  EXPECT_THAT(message(8, given({3, 4}), all),
              HasSubstr("add up to 7, and dimension 0 of [8, 6] has 8"));
  EXPECT_THAT(message(8, Placement::Shard(0), given({4, 4, 0})),
              HasSubstr("axis \"y\" shards dimension 0 by given extents, which it can only do "
                        "alone, and axis \"x\" shards it, too"));
  EXPECT_THAT(message(8, given({4, 4}), given({4, 4, 0})), HasSubstr("only do alone"));
  EXPECT_THAT(message(8, Placement::Shard(2, {4, 4}), all),
              HasSubstr("axis \"x\" shards dimension 2"));
}

TEST(LayoutTest, ShardsMayBeEmpty) {
  const Layout layout =
      *Layout::Make({2}, DType::kInt8, TwoByThree(), {Placement::Replicate(), Placement::Shard(0)});
  EXPECT_TRUE(layout.TileAt(2).IsEmpty());
}

TEST(LayoutTest, LayersArePartialValues) {
  const Layout layout =
      *Layout::Make({2}, DType::kInt8, TwoByThree(),
                    {Placement::Partial(Reduction::kMax), Placement::Replicate()});
  EXPECT_EQ(layout.LayerAt(1), 0);
  EXPECT_EQ(layout.LayerAt(4), 1);
  EXPECT_THAT(layout.PartialAxes(), ElementsAre(0));
  EXPECT_EQ(layout.reduction(), Reduction::kMax);
}

TEST(LayoutTest, WhatCannotBeIsRefusedWithTheReason) {
  const auto message = [](const Shape& shape, DType dtype, std::vector<Placement> placements) {
    const StatusOr<Layout> layout = Layout::Make(shape, dtype, TwoByThree(), std::move(placements));
    EXPECT_EQ(layout.status().code(), StatusCode::kInvalidArgument);
    return Message(layout.status());
  };
  const Placement replicate = Placement::Replicate();
  const Placement sum = Placement::Partial(Reduction::kSum);
  EXPECT_THAT(message({2}, DType::kInt8, {replicate}), HasSubstr("has 2 axes, and 1 placements"));
  EXPECT_THAT(message({2}, DType::kInt8, {replicate, Placement::Shard(1)}),
              HasSubstr("axis \"y\" shards dimension 1"));
  EXPECT_THAT(message({2}, DType::kInt8, {Placement::Shard(-1), replicate}),
              HasSubstr("axis \"x\" shards dimension -1"));
  EXPECT_THAT(message({2}, DType::kFloat8E4M3, {sum, replicate}), HasSubstr("not defined for"));
  EXPECT_THAT(message({2}, DType::kBool, {Placement::Partial(Reduction::kAvg), replicate}),
              HasSubstr("not defined for bool"));
  EXPECT_THAT(message({2}, DType::kInt8, {sum, Placement::Partial(Reduction::kMax)}),
              HasSubstr("partial values for max, another one for sum"));
  EXPECT_THAT(message({int64_t{1} << 46, 2}, DType::kInt8, {replicate, replicate}),
              HasSubstr("too large for a layout"));
  EXPECT_THAT(message({-2}, DType::kInt8, {replicate, replicate}), HasSubstr("[-2]"));
}

TEST(LayoutTest, AxesOfOneRankDealNothingOut) {
  const Mesh mesh = *Mesh::Make({{"x", 1}, {"y", 2}}, {0, 1});
  const Layout layout =
      *Layout::Make({4}, DType::kInt8, mesh, {Placement::Shard(0), Placement::Shard(0)});
  EXPECT_EQ(layout.WithoutUnitAxes().ToString(), "int8[4] on y=2 {0, 1}: y=shard(0)");
}

}  // namespace
}  // namespace lockstep::plan
