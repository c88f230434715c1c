// Lowering: which operations are left of a program.
#include "runtime/plan/passes/program_lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/plan/program.h"
#include "runtime/plan/steps/program_steps.h"
#include "tests/unit/runtime/plan/program_under_test.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using testing::kColumns;
using testing::kRows;
using testing::kWhole;
using testing::LayoutOn;
using testing::LineOf;
using testing::Lower;

TEST(ProgramLoweringTest, AReshardToTheSameLayoutIsNothing) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId same = builder.Reshard(x, kRows);
  builder.Call("f", {Read(same)});
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(lowered.ops, SizeIs(1));
  EXPECT_EQ(lowered.lies_in[static_cast<size_t>(same)], x);
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("nothing is done")));
  const ProgramSteps steps = ExpandProgram(lowered, 1);
  ASSERT_THAT(steps.steps, SizeIs(1));
  EXPECT_THAT(std::get<CallStep>(steps.steps[0].what).argument_buffers,
              ElementsAre(static_cast<int>(x)));
  EXPECT_EQ(steps.arena_bytes, 0);
}

TEST(ProgramLoweringTest, WhatIsWrittenLaterIsCopied) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId before = builder.Reshard(x, kRows);
  builder.Call("f", {Update(x)});
  builder.Call("f", {Read(before)});
  EXPECT_THAT(Lower(builder).ops, SizeIs(3)) << "the copy has the old values";
}

TEST(ProgramLoweringTest, AViewIsTheSameTilesOnSomeOfTheRanks) {
  const Layout one = *Layout::Make({32, 64}, DType::kFloat32, LineOf({1}), {Placement::Shard(1)});
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId local = builder.As(x, one);
  builder.Call("f", {Update(builder.Copy(local))});
  builder.Output(
      "y", builder.Reshard(local, LayoutOn(LineOf({0, 1}), Placement::Shard(0), Shape({32, 64}))));
  const LoweredProgram lowered = Lower(builder);
  EXPECT_EQ(lowered.lies_in[static_cast<size_t>(local)], x);
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("a view: nothing is done"),
                                         HasSubstr("begins before the call")));
  // The reshard begins with what the view is, not with what it lies in.
  ASSERT_THAT(lowered.ops, SizeIs(3));
  EXPECT_EQ(lowered.ops[1].reshard->from.shape(), Shape({32, 64}));
  const ProgramSteps steps = ExpandProgram(lowered, 1);
  EXPECT_EQ(std::get<CopyStep>(steps.steps.front().what).count, 32 * 64);
  const ProgramSteps others = ExpandProgram(lowered, 0);
  EXPECT_TRUE(std::holds_alternative<CollectiveStep>(others.steps.front().what)) << "no call";
}

TEST(ProgramLoweringTest, WhatIsTakenForAnotherIsNotMergedWithWhatItWas) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId whole = builder.Reshard(x, kWhole);
  const ValueId stacked =
      builder.As(whole, LayoutOn(LineOf({0, 1}), Placement::Shard(0), {128, 64}));
  builder.Output(
      "y", builder.Reshard(stacked, LayoutOn(LineOf({0, 1}), Placement::Shard(1), {128, 64})));
  EXPECT_THAT(Lower(builder).ops, SizeIs(2));
}

TEST(ProgramLoweringTest, TwoReshardsInARowBecomeOne) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  // By way of all of it on each rank.
  builder.Output("y", builder.Reshard(builder.Reshard(x, kWhole), kColumns));
  const LoweredProgram lowered = Lower(builder);
  ASSERT_THAT(lowered.ops, SizeIs(1));
  EXPECT_EQ(lowered.ops[0].source, x);
  EXPECT_EQ(lowered.ops[0].reshard->to, kColumns);
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("one with the reshard before it, at program_")));
}

TEST(ProgramLoweringTest, WhatIsReadBetweenIsMade) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId whole = builder.Reshard(x, kWhole);
  builder.Call("f", {Read(whole)});
  builder.Output("y", builder.Reshard(whole, kColumns));
  EXPECT_THAT(Lower(builder).ops, SizeIs(3));
}

TEST(ProgramLoweringTest, WhatNobodyReadsIsNotMade) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  builder.Reshard(builder.Reshard(x, kWhole), kColumns);
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(lowered.ops, IsEmpty());
  EXPECT_THAT(lowered.notes, SizeIs(2));
}

TEST(ProgramLoweringTest, CollectivesAreDoneAsTheyAreSaid) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  // Together they are a reshard from rows to columns, for which there is a better way.
  builder.Output("y", builder.ReduceScatter(builder.AllGather(x, "x"), "x", 1, Reduction::kAvg));
  // A reshard after a collective, and before one.
  builder.Output("z", builder.Reshard(builder.AllGather(x, "x"), kColumns));
  builder.Output("w", builder.AllToAll(builder.Reshard(x, kColumns), "x", 0));
  builder.AllGather(x, "x");
  const LoweredProgram lowered = Lower(builder);
  ASSERT_THAT(lowered.ops, SizeIs(6));
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("nothing reads the result")));
  EXPECT_EQ(lowered.ops[0].reshard, lowered.ops[2].reshard) << "found once";
  std::vector<std::string> kinds;
  for (const ProgramStep& step : ExpandProgram(lowered, 1).steps) {
    const auto* collective = std::get_if<CollectiveStep>(&step.what);
    if (collective != nullptr) kinds.emplace_back(FactsOf(collective->kind).name);
  }
  EXPECT_THAT(kinds,
              ElementsAre("allgather", "reduce-scatter", "allgather", "all-to-all", "all-to-all"));
}

TEST(ProgramLoweringTest, LoweringIsBoundedAndCanBeGivenUp) {
  ProgramBuilder builder;
  const auto layouts_of = [](int64_t rows) {
    return std::pair(LayoutOn(LineOf({0, 1}), Placement::Shard(0), {rows, 4}),
                     LayoutOn(LineOf({0, 1}), Placement::Replicate(), {rows, 4}));
  };
  for (int64_t rows = 1; rows <= static_cast<int64_t>(kMaxDifferentReshards) + 1; ++rows) {
    const auto [from, to] = layouts_of(rows);
    const std::string number = std::to_string(rows);
    builder.Output("y" + number, builder.Reshard(builder.Input("x" + number, from), to));
  }
  const auto program = std::make_shared<const Program>(*builder.Build());
  const Status status = LowerProgram(program, Topology(), CostModel()).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), HasSubstr("at most 256 different pairs of layouts"));
  EXPECT_EQ(LowerProgram(program, Topology(), CostModel(), [] { return true; }).status().code(),
            StatusCode::kAborted);
}

// The work is counted, and not timed: all ranks refuse the same programs.
TEST(ProgramLoweringTest, ProgramsWhoseLoweringTakesTooLongAreRefused) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  builder.Output("columns", builder.Reshard(x, kColumns));
  builder.Output("whole", builder.Reshard(x, kWhole));
  builder.Output("other", builder.Reshard(x, kColumns));
  const auto program = std::make_shared<const Program>(*builder.Build());
  int64_t effort = 0;
  for (const Layout& to : {kColumns, kWhole}) {
    const int64_t of_pair = LowerReshard(kRows, to, Topology(), CostModel())->effort;
    EXPECT_GT(of_pair, 0);
    effort += of_pair;
  }
  const auto lower = [&](int64_t most) {
    return LowerProgram(program, Topology(), CostModel(), nullptr, most).status();
  };
  EXPECT_EQ(lower(effort), OkStatus()) << "a pair that comes again takes none";
  const Status status = lower(effort - 1);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("program_lowering_test.cc:"),
                                     HasSubstr("2 different pairs of layouts took "),
                                     HasSubstr("make several programs of it")));
}

TEST(ProgramLoweringTest, CollectivesCountAsReshardsDo) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  builder.Output("whole", builder.AllGather(x, "x"));
  builder.Output("columns", builder.AllToAll(x, "x", 1));
  const auto program = std::make_shared<const Program>(*builder.Build());
  const auto lower = [&](int64_t most) {
    return LowerProgram(program, Topology(), CostModel(), nullptr, most).status();
  };
  const int ranks = kRows.mesh().size();
  const int pieces = ranks * (ranks - 1);
  EXPECT_EQ(lower(2 * ranks + pieces), OkStatus());
  EXPECT_EQ(lower(2 * ranks + pieces - 1).code(), StatusCode::kResourceExhausted);
}

TEST(ProgramLoweringTest, ADeepModelOnAThousandRanksIsLowered) {
  std::vector<Rank> ranks(1024);
  std::vector<int> nodes;
  for (Rank rank = 0; rank < 1024; ++rank) {
    ranks[static_cast<size_t>(rank)] = rank;
    nodes.push_back(rank / 8);
  }
  const Mesh mesh = *Mesh::Make({{"data", 128}, {"model", 8}}, ranks);
  const auto on = [&](Placement data, Placement model) {
    return *Layout::Make({4096, 4096}, DType::kBFloat16, mesh, {data, model});
  };
  const Layout split = on(Placement::Shard(0), Placement::Shard(1));
  const Layout whole = on(Placement::Shard(0), Placement::Replicate());
  const Layout summand = on(Placement::Shard(0), Placement::Partial(Reduction::kSum));
  ProgramBuilder builder;
  ValueId x = builder.Input("x", split);
  for (int layer = 0; layer < 40; ++layer) {
    const ValueId attended = builder.Call("attention", {Read(builder.Reshard(x, whole))}, summand);
    const ValueId normed = builder.Reshard(attended, split);
    const ValueId mixed = builder.Call("mlp", {Read(builder.Reshard(normed, whole))}, summand);
    x = builder.Reshard(mixed, split);
  }
  builder.Output("y", x);
  EXPECT_EQ(LowerProgram(std::make_shared<const Program>(*builder.Build()), Topology(nodes),
                         CostModel(), nullptr, kMaxLoweringEffort / 32)
                .status(),
            OkStatus());
}

}  // namespace
}  // namespace lockstep::plan
