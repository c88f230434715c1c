// Splits and combines as layouts of a program's values.
#include "runtime/fragment/plan_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::fragment {
namespace {

using plan::Layout;
using plan::Mesh;
using plan::Placement;
using plan::ProgramBuilder;
using plan::ValueId;
using ::testing::HasSubstr;

constexpr DType kReal = DType::kFloat64;

// f(float64[?, 4], float64) -> (float64[?], float64[4])
Signature Scaling() {
  return {"f",
          {{{kReal, {kOpen, 4}}}, {{kReal, {}, /*scalar=*/true}}},
          {{{kReal, {kOpen}}, /*sizes_known=*/true}, {{kReal, {4}}, true}}};
}
std::vector<Output> ScalingOutputs() { return {{Combine::kRows, Shape{10}}, {Combine::kAdd}}; }

Layout On(const Mesh& mesh, const Shape& shape, std::vector<Placement> placements) {
  return *Layout::Make(shape, kReal, mesh, std::move(placements));
}
const Mesh kThree = *Mesh::Line({0, 1, 2});
const Mesh kSquare = *Mesh::Make({{"x", 2}, {"y", 2}}, {3, 2, 1, 0});

// What the one call of the program means.
StatusOr<PlacedCall> Meaning(const ProgramBuilder& builder, const Signature& signature) {
  const StatusOr<plan::Program> program = builder.Build();
  if (!program.ok()) return program.status();
  return FragmentCallOf(*program, std::get<plan::CallOp>(program->ops().back().what), signature);
}

TEST(PlanCallTest, WhatIsAddedMeansWhatWasAskedFor) {
  ProgramBuilder program;
  const ValueId x = program.Input("x", On(kThree, {10, 4}, {Placement::Replicate()}));
  const StatusOr<PlanCall> call =
      CallFragment(program, "f", Scaling(), {0, 1, 2}, {{x, Split::kRows}, 2}, ScalingOutputs());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(program.LayoutOf(call->arguments[0]), On(kThree, {10, 4}, {Placement::Shard(0)}));
  EXPECT_EQ(call->arguments[1], plan::kNoValue);
  EXPECT_EQ(program.LayoutOf(call->results[0]), On(kThree, {10}, {Placement::Shard(0)}));
  EXPECT_EQ(program.LayoutOf(call->results[1]),
            On(kThree, {4}, {Placement::Partial(Reduction::kSum)}));
  const StatusOr<PlacedCall> placed = Meaning(program, Scaling());
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->PartAt(0, 1).extents, Shape({3, 4}));
  EXPECT_EQ(placed->outputs()[0].combine, Combine::kRows);
  EXPECT_EQ(placed->outputs()[1].combine, Combine::kAdd);
  // What was moved for one call is what the next one takes: there are the reshard, and two calls.
  ASSERT_TRUE(CallFragment(program, "f", Scaling(), {0, 1, 2},
                           {{call->arguments[0], Split::kRows}, 2.5}, ScalingOutputs())
                  .ok());
  EXPECT_EQ(program.Build()->ops().size(), 3u);
}

// All layouts of one worker lie alike, and still say what is split and what is added.
TEST(PlanCallTest, OneWorkerSplitsAndCombinesToo) {
  const Mesh alone = *Mesh::Line({0});
  ProgramBuilder program;
  const ValueId x = program.Input("x", On(alone, {10, 4}, {Placement::Replicate()}));
  ASSERT_TRUE(
      CallFragment(program, "f", Scaling(), {0}, {{x, Split::kRows}, 2}, ScalingOutputs()).ok());
  const StatusOr<PlacedCall> placed = Meaning(program, Scaling());
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->outputs()[1].combine, Combine::kAdd);
  // Also along which dimension: of two rows without columns there are two, and no column.
  EXPECT_EQ(SplitOf(On(alone, {2, 0}, {Placement::Shard(0)})), Split::kRows);
  const Layout columns = On(alone, {2, 0}, {Placement::Shard(1)});
  EXPECT_EQ(SplitOf(columns), Split::kColumns);
  const Signature copy{"f", {{{kReal, {kOpen, kOpen}}}}, {{{kReal, {kOpen, kOpen}}, true}}};
  ProgramBuilder by_rows;
  const auto call =
      CallFragment(by_rows, "f", copy, {0}, {{by_rows.Input("x", columns), Split::kRows}},
                   {{Combine::kRows, Shape{2, 0}}});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(Meaning(by_rows, copy).ok()) << Meaning(by_rows, copy).status();
}

TEST(PlanCallTest, LayoutsOfAPersonMayBeOnAnyMesh) {
  ProgramBuilder program;
  const ValueId x =
      program.Input("x", On(kSquare, {8, 4}, {Placement::Shard(0), Placement::Shard(0)}));
  const ValueId y =
      program.Make(On(*Mesh::Line({0, 1, 2, 3}), {4}, {Placement::Partial(Reduction::kSum)}));
  const ValueId z = program.Make(
      On(kSquare, {4}, {Placement::Partial(Reduction::kSum), Placement::Partial(Reduction::kSum)}));
  const Signature sums{"f", {{{kReal, {kOpen, 4}}}}, {{{kReal, {4}}}, {{kReal, {4}}}}};
  program.Call("f", {plan::Read(x), plan::Write(y), plan::Write(z)});
  const StatusOr<PlacedCall> placed = Meaning(program, sums);
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->PartAt(0, 3).begin, Shape({0, 0})) << "rank 3 is the first of the mesh";
}

TEST(PlanCallTest, LayoutsSayHowTheyAreSplitAndCombined) {
  const auto on_three = [](Placement placement) { return On(kThree, {7, 9}, {placement}); };
  EXPECT_EQ(SplitOf(on_three(Placement::Replicate())), Split::kNone);
  EXPECT_EQ(SplitOf(on_three(Placement::Shard(0))), Split::kRows);
  EXPECT_EQ(SplitOf(on_three(Placement::Shard(1))), Split::kColumns);
  EXPECT_EQ(SplitOf(on_three(Placement::Shard(0, {7, 0, 0}))), Split::kAsPlaced);
  EXPECT_EQ(SplitOf(on_three(Placement::Partial(Reduction::kSum))), Split::kAsPlaced);
  EXPECT_EQ(*CombineOf(on_three(Placement::Shard(0, {7, 0, 0}))), Combine::kRows);
  EXPECT_EQ(*CombineOf(on_three(Placement::Shard(1))), Combine::kColumns);
  EXPECT_EQ(*CombineOf(on_three(Placement::Replicate())), Combine::kNone);
  EXPECT_EQ(*CombineOf(on_three(Placement::Partial(Reduction::kProd))), Combine::kMul);
  EXPECT_EQ(*CombineOf(on_three(Placement::Partial(Reduction::kMin))), Combine::kMin);
  EXPECT_EQ(*CombineOf(on_three(Placement::Partial(Reduction::kMax))), Combine::kMax);
  EXPECT_THAT(Message(CombineOf(on_three(Placement::Partial(Reduction::kAvg))).status()),
              HasSubstr("no combine of fragments is avg"));
  const Layout tiles = On(kSquare, {8, 8}, {Placement::Shard(0), Placement::Shard(1)});
  EXPECT_EQ(CombineOf(tiles).status().code(), StatusCode::kInvalidArgument);
  const Layout half = On(kSquare, {8}, {Placement::Partial(Reduction::kSum), Placement::Shard(0)});
  EXPECT_THAT(Message(CombineOf(half).status()), HasSubstr("all axes have to be partial"));
}

TEST(PlanCallTest, WhatDoesNotFitAddsNothing) {
  ProgramBuilder program;
  const ValueId x = program.Input("x", On(kThree, {10, 4}, {Placement::Shard(0)}));
  const auto refusal = [&](const std::vector<PlanInput>& inputs,
                           const std::vector<Output>& outputs) {
    return Message(CallFragment(program, "f", Scaling(), {0, 1, 2}, inputs, outputs).status());
  };
  EXPECT_THAT(refusal({{x, Split::kRows}, true}, ScalingOutputs()),
              HasSubstr("argument 1 of `f`: it is float64, and a bool is given"));
  EXPECT_THAT(refusal({{x, Split::kRows}}, ScalingOutputs()),
              HasSubstr("`f` has 2 arguments, and 1 is given"));
  EXPECT_THAT(refusal({{x, Split::kRows}, 2}, {{Combine::kRows}, {Combine::kAdd}}),
              HasSubstr("result 0 of `f` is float64[?]: the fragment does not state how large it "
                        "becomes; give its shape"));
  EXPECT_THAT(refusal({{x, Split::kRows}, 2}, {{Combine::kRows, Shape{10}}, {Combine::kNone}}),
              HasSubstr("result 1 of `f` cannot be combined by none in a plan"));
  EXPECT_THAT(refusal({x, 2}, ScalingOutputs()), HasSubstr("no argument is split"));
  EXPECT_TRUE(program.Build()->ops().empty());
}

TEST(PlanCallTest, AProgramIsComparedWithTheSignature) {
  const Layout rows = On(kThree, {10, 4}, {Placement::Shard(0)});
  const Signature same{"f", {{{kReal, {kOpen, 4}}}}, {{{kReal, {kOpen, 4}}, true}}};
  const auto refusal = [&](const Layout& to, bool writes) {
    ProgramBuilder program;
    const ValueId x = program.Input("x", rows);
    const ValueId y = program.Make(to);
    program.Call("f", {plan::Read(x), writes ? plan::Write(y) : plan::Read(x)});
    return Message(Meaning(program, same).status());
  };
  EXPECT_EQ(refusal(rows, true), "");
  EXPECT_THAT(refusal(rows, false), HasSubstr("result 0 of `f` takes a value that is written"));
  EXPECT_THAT(refusal(On(kThree, {10, 4}, {Placement::Shard(0, {10, 0, 0})}), true),
              HasSubstr("result 0 of `f` becomes float64[10, 4] on x=3 {0, 1, 2}: x=shard(0), and "
                        "is written to "));
  EXPECT_THAT(refusal(On(kThree, {10, 4}, {Placement::Replicate()}), true),
              HasSubstr("differs from worker to worker"));
  ProgramBuilder program;
  program.Call("f", {plan::Read(program.Input("x", rows))}, rows);
  EXPECT_THAT(Message(Meaning(program, same).status()), HasSubstr("returns nothing"));
}

}  // namespace
}  // namespace lockstep::fragment
