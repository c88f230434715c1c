// Collectives along one axis: the layouts that they take and make, what is refused, and that they
// are lowered to what they say.
#include "runtime/plan/collective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/plan/lowering/collective_lowering.h"
#include "runtime/plan/lowering/teams.h"
#include "runtime/plan/steps/expand.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kR = Placement::Replicate;
constexpr Placement (*kS)(int) = Placement::Shard;
constexpr auto kP = Placement::Partial;

// x is 2, y is 3; ranks in an order of their own.
const Mesh kGrid = *Mesh::Make({{"x", 2}, {"y", 3}}, {5, 3, 1, 4, 2, 0});

Layout OnGrid(const Shape& shape, Placement x, Placement y, DType dtype = DType::kFloat32) {
  return *Layout::Make(shape, dtype, kGrid, {x, y});
}

Collective AllReduce(const std::string& axis, Reduction op = Reduction::kSum) {
  return {.kind = OperationKind::kAllReduce, .axis = axis, .op = op};
}
Collective ReduceScatter(const std::string& axis, int dim, Reduction op = Reduction::kSum) {
  return {.kind = OperationKind::kReduceScatter, .axis = axis, .dim = dim, .op = op};
}
Collective AllGather(const std::string& axis) {
  return {.kind = OperationKind::kAllGather, .axis = axis};
}
Collective AllToAll(const std::string& axis, int dim) {
  return {.kind = OperationKind::kAllToAll, .axis = axis, .dim = dim};
}
Collective Broadcast(const std::string& axis, int root) {
  return {.kind = OperationKind::kBroadcast, .axis = axis, .root = root};
}

Layout ResultOf(const Collective& collective, const Layout& source) {
  const StatusOr<CollectiveLayouts> layouts = LayoutsOf(collective, source);
  EXPECT_TRUE(layouts.ok()) << layouts.status();
  return layouts.ok() ? layouts->result : source;
}

TEST(CollectiveTest, ResultsHaveTheLayoutsThatTheyMake) {
  const Layout dealt = OnGrid({6, 9}, kS(0), kS(1));
  EXPECT_EQ(ResultOf(AllGather("x"), dealt), OnGrid({6, 9}, kR(), kS(1)));
  EXPECT_EQ(ResultOf(AllToAll("x", 1), OnGrid({6, 9}, kS(0), kR())), OnGrid({6, 9}, kS(1), kR()));
  // Contributions: what was dealt out becomes smaller, what was not stays.
  EXPECT_EQ(ResultOf(AllReduce("y"), dealt), OnGrid({6, 3}, kS(0), kR()));
  EXPECT_EQ(ResultOf(AllReduce("y"), OnGrid({6, 9}, kS(0), kR())), OnGrid({6, 9}, kS(0), kR()));
  EXPECT_EQ(ResultOf(AllReduce("y"), OnGrid({6, 9}, kS(0), kP(Reduction::kSum))),
            OnGrid({6, 9}, kS(0), kR()));
  EXPECT_EQ(ResultOf(ReduceScatter("y", 0), dealt), OnGrid({6, 3}, kS(0), kS(0)));
  // Of a root's part, also where parts differ.
  EXPECT_EQ(ResultOf(Broadcast("y", 0), OnGrid({6, 7}, kR(), kS(1))), OnGrid({6, 3}, kR(), kR()));
  EXPECT_EQ(ResultOf(Broadcast("y", 2), OnGrid({6, 7}, kR(), kS(1))), OnGrid({6, 2}, kR(), kR()));
  EXPECT_EQ(ResultOf(Broadcast("x", 1), OnGrid({7, 2}, kS(0), kS(0))), OnGrid({3, 2}, kR(), kS(0)));
}

// What is taken may have been dealt out by given extents; what is made is dealt out evenly.
TEST(CollectiveTest, OfGivenExtents) {
  const Placement given = Placement::Shard(0, {1, 5, 0});
  const Layout ragged = OnGrid({6, 4}, kS(1), given);
  EXPECT_EQ(ResultOf(AllGather("y"), ragged), OnGrid({6, 4}, kS(1), kR()));
  EXPECT_EQ(ResultOf(AllToAll("y", 1), OnGrid({6, 9}, kR(), given)), OnGrid({6, 9}, kR(), kS(1)));
  EXPECT_EQ(ResultOf(AllToAll("y", 0), ragged), OnGrid({6, 4}, kS(1), kS(0)));
  EXPECT_EQ(ResultOf(AllReduce("x"), ragged), OnGrid({6, 2}, kR(), given));
  EXPECT_EQ(ResultOf(Broadcast("y", 1), ragged), OnGrid({5, 4}, kS(1), kR()));
  EXPECT_THAT(Message(LayoutsOf(AllReduce("y"), ragged).status()),
              HasSubstr("has to have equal extents"));
  EXPECT_THAT(Message(LayoutsOf(ReduceScatter("x", 0), ragged).status()),
              HasSubstr("which it can only do alone"));
}

TEST(CollectiveTest, WhatCannotBeIsRefused) {
  const auto error = [](const Collective& collective, const Layout& source) {
    const Status status = LayoutsOf(collective, source).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  const Layout whole = OnGrid({6, 9}, kR(), kR());
  EXPECT_THAT(error(AllReduce("z"), whole),
              AllOf(HasSubstr("allreduce along z, sum: the mesh x=2,y=3 {5, 3, 1, 4, 2, 0}"),
                    HasSubstr("has no such axis")));
  EXPECT_THAT(error(AllReduce("y"), OnGrid({6, 7}, kR(), kS(1))),
              AllOf(HasSubstr("what is combined has to have equal extents: rank 3 holds "
                              "float32[6, 2] of"),
                    HasSubstr("and it would hold float32[6, 3] of")));
  EXPECT_THAT(error(AllReduce("y", Reduction::kMax), OnGrid({6, 9}, kP(Reduction::kSum), kR())),
              HasSubstr("which of them comes first would change the result"));
  EXPECT_THAT(error(AllReduce("y"), OnGrid({6, 9}, kR(), kR(), DType::kFloat8E4M3)),
              HasSubstr("not defined for float8"));
  EXPECT_THAT(error(ReduceScatter("y", 2), whole), HasSubstr("shards dimension 2 of a tensor"));
  EXPECT_THAT(error(ReduceScatter("x", 0), OnGrid({6, 9}, kR(), kS(0))),
              HasSubstr("a later axis shards dimension 0, too"));
  EXPECT_THAT(error(AllGather("x"), whole), HasSubstr("deals nothing out along it"));
  EXPECT_THAT(error(AllGather("x"), OnGrid({6, 9}, kS(0), kS(0))), HasSubstr("a later axis"));
  EXPECT_THAT(error(AllToAll("x", 0), OnGrid({6, 9}, kS(0), kR())),
              HasSubstr("the axis shards dimension 0 already"));
  EXPECT_THAT(error(AllToAll("x", -1), OnGrid({6, 9}, kS(0), kR())), HasSubstr("dimension -1"));
  EXPECT_THAT(error(Broadcast("x", 2), whole),
              HasSubstr("broadcast along x from 2: the axis has the coordinates 0 to 1"));
  EXPECT_THAT(error({.kind = OperationKind::kBarrier, .axis = "x"}, whole),
              HasSubstr("a program has no such operation"));
}

Reshard Lowered(const Collective& collective, const Layout& source, const Topology& topology) {
  return *LowerCollective(collective, *LayoutsOf(collective, source), topology, CostModel());
}

// A reshard shares the work among replicas, and crosses the mesh for it.
TEST(CollectiveTest, TheSlicesAlongTheAxisMeet) {
  const Topology nodes({0, 1, 0, 1, 0, 1});
  const auto teams = [&](const Collective& collective, const Layout& source) {
    const auto all = Lowered(collective, source, nodes).teams;
    EXPECT_THAT(all, SizeIs(1));
    return std::vector<Team>(all.front()->begin(), all.front()->end());
  };
  const auto slices = ElementsAre(ElementsAre(5, 3, 1), ElementsAre(4, 2, 0));
  const auto sorted = ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5));
  const Shape shape = {60, 90};
  EXPECT_THAT(teams(AllReduce("y"), OnGrid(shape, kR(), kR())), slices);
  EXPECT_THAT(teams(ReduceScatter("y", 1), OnGrid(shape, kR(), kR())), slices);
  EXPECT_THAT(teams(AllGather("y"), OnGrid(shape, kR(), kS(1))), slices);
  EXPECT_THAT(teams(AllToAll("y", 0), OnGrid(shape, kR(), kS(1))), sorted);
  EXPECT_THAT(teams(Broadcast("y", 1), OnGrid({6, 9}, kR(), kR())), sorted);
  EXPECT_THAT(teams(Broadcast("y", 1), OnGrid({6, 9}, kR(), kR(), DType::kFloat8E4M3)), sorted);
}

TEST(CollectiveTest, ALargeBroadcastIsForwarded) {
  const Layout small = OnGrid({6, 9}, kR(), kR());
  const Layout large = OnGrid({1 << 12, 1 << 10}, kR(), kR());
  EXPECT_THAT(Lowered(Broadcast("y", 2), small, Topology()).moves[0].exchange->rounds, SizeIs(1));
  EXPECT_THAT(Lowered(Broadcast("y", 2), large, Topology()).moves[0].exchange->rounds, SizeIs(2));
}

// Counted, and not timed: all ranks refuse the same.
TEST(CollectiveTest, WhatHasTooManyPiecesIsRefused) {
  const Layout source = OnGrid({6, 9}, kR(), kS(1));
  const auto lower = [&](const Collective& collective, int64_t most) {
    return LowerCollective(collective, *LayoutsOf(collective, source), Topology(), CostModel(),
                           most);
  };
  // In each of two slices, three ranks send two pieces.
  const StatusOr<Reshard> lowered = lower(AllToAll("y", 0), 12);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_EQ(lowered->effort, 12 + 6);
  const Status status = lower(AllToAll("y", 0), 11).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("along y, dim 0: among 6 ranks"),
                                     HasSubstr("use an axis of fewer ranks")));
  EXPECT_EQ(lower(AllGather("y"), 0)->effort, 6) << "it is one collective, whatever its size";
}

TEST(CollectiveTest, AlongAnAxisOfOneItIsACopy) {
  const Mesh mesh = *Mesh::Make({{"x", 1}, {"y", 2}}, {1, 0});
  const Layout source = *Layout::Make({4, 4}, DType::kFloat32, mesh, {kS(0), kS(1)});
  for (const Collective& collective :
       {AllReduce("x"), ReduceScatter("x", 0), AllGather("x"), Broadcast("x", 0)}) {
    const Reshard lowered = Lowered(collective, source, Topology());
    EXPECT_THAT(lowered.moves, IsEmpty()) << collective.ToString();
    EXPECT_THAT(Expand(lowered, 1).steps, SizeIs(1)) << collective.ToString();
  }
}

}  // namespace
}  // namespace lockstep::plan
