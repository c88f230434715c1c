// Tensors that lie on the workers by a layout: placed, moved, and collected.
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/plan/layout.h"
#include "runtime/plan/program.h"
#include "tests/integration/session_fixture.h"

namespace lockstep::testing {
namespace {

using plan::Layout;
using plan::Mesh;
using plan::Placement;
using ::testing::HasSubstr;

class LayoutsTest : public SessionFixture {
 protected:
  static Layout On(const Mesh& mesh, std::vector<Placement> placements, const Shape& shape = {5, 6},
                   DType dtype = DType::kInt32) {
    return Unwrap(Layout::Make(shape, dtype, mesh, std::move(placements)));
  }
  static Mesh Line(std::vector<Rank> ranks) { return Unwrap(Mesh::Line(std::move(ranks))); }
  static Mesh Square() { return Unwrap(Mesh::Make({{"x", 2}, {"y", 2}}, {0, 1, 2, 3})); }
  template <typename T>
  static HostTensor Host(const Shape& shape, const std::vector<T>& elements) {
    return HostTensor::Of<T>(shape, elements);
  }
  static HostTensor Numbers(const Shape& shape) {
    std::vector<int32_t> numbers;
    for (int32_t i = 0; i < shape.NumElements(); ++i) numbers.push_back(i);
    return Host(shape, numbers);
  }
};
INSTANTIATE_TEST_SUITE_P(Clusters, LayoutsTest, ::testing::ValuesIn(AllKinds()), NameOf);

TEST_P(LayoutsTest, EachRankHasItsTile) {
  const Layout columns = On(Line({2, 0}), {Placement::Shard(1)}, {2, 3});
  const DRef placed = Unwrap(session_->Place(Numbers({2, 3}), columns));
  EXPECT_EQ(Get(placed, 2), Value(Host({2, 2}, std::vector<int32_t>{0, 1, 3, 4})));
  EXPECT_EQ(Get(placed, 0), Value(Host({2, 1}, std::vector<int32_t>{2, 5})));
  EXPECT_EQ(session_->DebugGet(placed, 1).status().code(), StatusCode::kNotFound);
  EXPECT_OK(session_->Reset());
  EXPECT_EQ(Unwrap(session_->LayoutOf(placed)), columns);
  EXPECT_EQ(Unwrap(session_->Collect(placed)), Numbers({2, 3}));
}

TEST_P(LayoutsTest, ASplitIsALayoutOverAllWorkers) {
  const HostTensor numbers = Numbers({5, 6});
  const Mesh all = Line({0, 1, 2, 3});
  const auto layout_by = [&](fragment::Split split) {
    const DRef placed = Unwrap(session_->Place(numbers, split));
    EXPECT_EQ(Unwrap(session_->Collect(placed)), numbers);
    return Unwrap(session_->LayoutOf(placed));
  };
  EXPECT_EQ(layout_by(fragment::Split::kRows), On(all, {Placement::Shard(0)}));
  EXPECT_EQ(layout_by(fragment::Split::kColumns), On(all, {Placement::Shard(1)}));
  EXPECT_EQ(layout_by(fragment::Split::kNone), On(all, {Placement::Replicate()}));
  for (const Status& refused :
       {session_->Place(numbers, fragment::Split::kAsPlaced).status(),
        session_->Place(Numbers({5}), fragment::Split::kColumns).status()}) {
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused;
  }
}

// Data that does not divide evenly: each rank has as many rows as it is given, or none.
TEST_P(LayoutsTest, RanksHaveTheRowsThatTheyAreGiven) {
  const Layout given = On(Line({0, 1, 2, 3}), {Placement::Shard(0, {2, 0, 5, 1})}, {8, 3});
  const DRef placed = Unwrap(session_->Place(Numbers({8, 3}), given));
  EXPECT_EQ(Get(placed, 0), Value(Host({2, 3}, std::vector<int32_t>{0, 1, 2, 3, 4, 5})));
  EXPECT_EQ(Get(placed, 1), Value(Host({0, 3}, std::vector<int32_t>())));
  EXPECT_EQ(Get(placed, 3), Value(Host({1, 3}, std::vector<int32_t>{21, 22, 23})));
  EXPECT_EQ(Unwrap(session_->LayoutOf(placed)), given);
  EXPECT_EQ(Unwrap(session_->Collect(placed)), Numbers({8, 3}));

  const DRef even =
      Unwrap(session_->Reshard(placed, On(Line({0, 1, 2, 3}), {Placement::Shard(0)}, {8, 3})));
  EXPECT_EQ(Get(even, 3), Value(Host({2, 3}, std::vector<int32_t>{18, 19, 20, 21, 22, 23})));
  const DRef whole =
      Unwrap(session_->Reshard(placed, On(Line({0, 1, 2, 3}), {Placement::Replicate()}, {8, 3})));
  EXPECT_EQ(Get(whole, 1), Value(Numbers({8, 3})));
  const DRef columns =
      Unwrap(session_->Reshard(even, On(Line({3, 1}), {Placement::Shard(1, {1, 2})}, {8, 3})));
  EXPECT_EQ(Unwrap(session_->Collect(columns)), Numbers({8, 3}));

  // Each rank's own rows are declared, and their sums go to ranks by other extents.
  const Layout partial = On(Line({0, 1, 2, 3}), {Placement::Partial(Reduction::kSum)}, {4});
  const DRef ones = Call("lockstep.full", Shape{4}, 1, DType::kInt32);
  EXPECT_OK(session_->DeclareLayout(ones, partial));
  const DRef sums = Unwrap(
      session_->Reshard(ones, On(Line({0, 1, 2, 3}), {Placement::Shard(0, {0, 3, 1, 0})}, {4})));
  EXPECT_EQ(Get(sums, 1), Value(Host({3}, std::vector<int32_t>{4, 4, 4})));
  EXPECT_EQ(Get(sums, 3), Value(Host({0}, std::vector<int32_t>())));
}

// What a function has made lies as its caller says.
TEST_P(LayoutsTest, PartialValuesOfAFunctionAreCombined) {
  const DRef parts = FullOfRank({3}, DType::kInt64);
  EXPECT_THAT(Message(session_->Collect(parts).status()), HasSubstr("DeclareLayout()"));
  const Layout partial =
      On(Line({0, 1, 2, 3}), {Placement::Partial(Reduction::kSum)}, {3}, DType::kInt64);
  EXPECT_OK(session_->DeclareLayout(parts, partial));
  EXPECT_EQ(*Unwrap(session_->Collect(parts)).Elements<int64_t>(), (std::vector<int64_t>{6, 6, 6}));
  const Layout shards = On(Line({0, 1, 2, 3}), {Placement::Shard(0)}, {3}, DType::kInt64);
  const DRef scattered = Unwrap(session_->Reshard(parts, shards));
  EXPECT_EQ(Get(scattered, 2), Value(Host({1}, std::vector<int64_t>{6})));
  EXPECT_EQ(Get(scattered, 3), Value(Host({0}, std::vector<int64_t>())));
}

// The sum is no partial value any more.
TEST_P(LayoutsTest, WhatIsOverwrittenHasNoLayoutAnyMore) {
  const Layout partial = On(Line({0, 1, 2, 3}), {Placement::Partial(Reduction::kSum)}, {2, 3});
  const DRef placed = Unwrap(session_->Place(Numbers({2, 3}), partial));
  (void)Unwrap(session_->AllReduce(placed, Reduction::kSum, {.destination = placed}));
  EXPECT_THAT(Message(session_->Collect(placed).status()), HasSubstr("DeclareLayout()"));
  EXPECT_OK(session_->DeclareLayout(placed, partial));
  EXPECT_OK(session_->DebugSet(placed, 0, Numbers({2, 3})));
  EXPECT_EQ(session_->LayoutOf(placed).status().code(), StatusCode::kInvalidArgument);
}

TEST_P(LayoutsTest, WhatDoesNotFitIsRefusedHere) {
  const Layout rows = On(Line({0, 1}), {Placement::Shard(0)});
  const auto message = [](const auto& result) {
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    return Message(result.status());
  };
  EXPECT_THAT(message(session_->Place(Numbers({6, 5}), rows)),
              HasSubstr("the tensor is int32[6, 5], and the layout one of int32[5, 6]"));
  EXPECT_THAT(message(session_->Place(Numbers({5, 6}), On(Line({4}), {Placement::Replicate()}))),
              HasSubstr("the layout's mesh: "));
  const DRef placed = Unwrap(session_->Place(Numbers({5, 6}), rows));
  EXPECT_THAT(message(session_->Reshard(placed, On(Line({0}), {Placement::Replicate()}, {5, 5}))),
              HasSubstr("the layout one of int32[5, 5]"));
  EXPECT_THAT(message(session_->Reshard(DRef(), rows)), HasSubstr("the tensor"));
  EXPECT_THAT(message(session_->Reshard(
                  placed, On(Line({0, 1}), {Placement::Partial(Reduction::kAvg)}, {5, 6}))),
              HasSubstr("a reshard cannot make partial values of an average"));
  EXPECT_EQ(Unwrap(session_->Collect(placed)), Numbers({5, 6})) << "nothing has failed";
}

TEST_P(LayoutsTest, ATileThatIsNotWhatItsLayoutSaysNamesTheRank) {
  const DRef tensor = FullOfRank({3, 6}, DType::kInt32);
  EXPECT_OK(session_->DeclareLayout(tensor, On(Line({0, 1}), {Placement::Shard(0)})));
  const Status status = session_->Collect(tensor).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 1, "));
  EXPECT_THAT(Message(status), HasSubstr("this rank's tile is int32[2, 6], and the source"));
  EXPECT_THAT(Message(status), HasSubstr("holds int32[3, 6]"));
  EXPECT_OK(session_->Reset());
  const Layout rows = On(Line({0, 1}), {Placement::Shard(0)});
  EXPECT_EQ(Unwrap(session_->Collect(Unwrap(session_->Place(Numbers({5, 6}), rows)))),
            Numbers({5, 6}));
}

TEST_P(LayoutsTest, AFailureOnOneRankEndsAReshardOnAll) {
  const DRef placed =
      Unwrap(session_->Place(Numbers({5, 6}), On(Line({0, 1, 2, 3}), {Placement::Shard(0)})));
  (void)Unwrap(session_->Call(Function("lockstep.fail"), "the first cause", 2));
  (void)session_->Reshard(placed, On(Line({0, 1, 2, 3}), {Placement::Shard(1)}));
  EXPECT_THAT(Message(session_->SyncAll()), HasSubstr("the first cause"));
  EXPECT_OK(session_->Reset());
  EXPECT_EQ(Unwrap(session_->Collect(placed)), Numbers({5, 6}));
}

// The client's word is checked against what the workers know, by whoever moves the tensor.
TEST_P(LayoutsTest, AProgramThatTakesATensorForAnotherIsRefusedByTheWorkers) {
  const Layout whole = On(Line({0, 1, 2, 3}), {Placement::Replicate()});
  const Layout partial = On(Line({0, 1, 2, 3}), {Placement::Partial(Reduction::kSum)});
  const DRef placed = Unwrap(session_->Place(Numbers({5, 6}), whole));
  plan::ProgramBuilder program;
  program.Output("y", program.Reshard(program.Input("x", partial), whole));
  const plan::Program built = Unwrap(program.Build());
  // This client says so, where it knows it.
  EXPECT_THAT(Message(session_->Bind(built, {.inputs = {{"x", placed}}}).status()),
              HasSubstr("and its register holds " + whole.ToString()));
  EXPECT_OK(session_->DeclareLayout(placed, partial));
  const BoundPlan plan = Unwrap(session_->Bind(built, {.inputs = {{"x", placed}}}));
  EXPECT_OK(session_->SyncAll());
  EXPECT_EQ(Unwrap(session_->LayoutOf(Unwrap(plan.Output("y")))), whole);
}

}  // namespace
}  // namespace lockstep::testing
