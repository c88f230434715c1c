// The steps of one rank, and the memory of their buffers.
#include "runtime/plan/steps/program_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/program.h"
#include "tests/unit/runtime/plan/program_under_test.h"

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using testing::kOthers;
using testing::kRows;
using testing::LayoutOn;
using testing::LineOf;
using testing::Lower;

TEST(ProgramStepsTest, RanksHaveTheirStepsOnly) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId y = builder.Call("f", {Read(x)}, kRows);
  const ValueId there = builder.Reshard(y, kOthers);
  builder.Output("z", builder.Call("g", {Read(there)}, kOthers));
  const LoweredProgram lowered = Lower(builder);
  const auto calls = [&](Rank rank) {
    std::vector<size_t> ops;
    for (const ProgramStep& step : ExpandProgram(lowered, rank).steps) {
      if (std::holds_alternative<CallStep>(step.what)) ops.push_back(step.op);
    }
    return ops;
  };
  EXPECT_THAT(calls(0), ElementsAre(0));
  EXPECT_THAT(calls(3), ElementsAre(2));
  EXPECT_THAT(ExpandProgram(lowered, 4).steps, IsEmpty());
  // All know all teams, in one order.
  EXPECT_EQ(ExpandProgram(lowered, 0).teams, ExpandProgram(lowered, 4).teams);
  EXPECT_THAT(ExpandProgram(lowered, 0).teams, Not(IsEmpty()));
}

TEST(ProgramStepsTest, ACopyIsMadeWhereItCouldBeTold) {
  // How many copies rank 0 makes, if calls write to these before and after the copy.
  const auto copies = [](auto&& before, auto&& after) {
    ProgramBuilder builder;
    const ValueId x = builder.Input("x", kRows);
    before(builder, x);
    const ValueId copy = builder.Copy(x);
    after(builder, x, copy);
    builder.Call("read", {Read(copy), Read(x)});
    const ProgramSteps steps = ExpandProgram(Lower(builder), 0);
    return std::count_if(steps.steps.begin(), steps.steps.end(), [](const auto& step) {
      return std::holds_alternative<CopyStep>(step.what);
    });
  };
  using Builder = ProgramBuilder;
  const auto nothing = [](auto&&...) {};
  const auto write_x = [](Builder& builder, ValueId x, auto...) { builder.Call("f", {Update(x)}); };
  EXPECT_EQ(copies(nothing, nothing), 0);
  EXPECT_EQ(copies(write_x, nothing), 0) << "it has what was written";
  EXPECT_EQ(copies(nothing, write_x), 1);
  EXPECT_EQ(copies(nothing, [](Builder& builder, ValueId,
                               ValueId copy) { builder.Call("f", {Write(copy)}); }),
            1);
  EXPECT_EQ(
      copies(nothing, [](Builder& builder, ValueId, ValueId copy) { builder.Output("y", copy); }),
      1);
  EXPECT_EQ(copies(nothing, [](Builder& builder, ValueId,
                               ValueId copy) { builder.Call("f", {Read(builder.Copy(copy))}); }),
            0);
  EXPECT_EQ(copies(nothing, [](Builder& builder, ValueId,
                               ValueId copy) { builder.Call("f", {Update(builder.Copy(copy))}); }),
            1)
      << "of the copy";
}

TEST(ProgramStepsTest, AnOutputHasABufferOfItsOwn) {
  ProgramBuilder builder;
  builder.Output("y", builder.Reshard(builder.Input("x", kRows), kRows));
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(lowered.ops, SizeIs(1));
  const ProgramSteps steps = ExpandProgram(lowered, 0);
  EXPECT_EQ(steps.buffers[1].home, StepBuffer::Home::kArena);
  EXPECT_THAT(steps.steps, SizeIs(1)) << "a local copy";
}

TEST(ProgramStepsTest, MemoryIsUsedAgain) {
  ProgramBuilder builder;
  ValueId x = builder.Input("x", kRows);
  constexpr int kLinks = 12;
  for (int i = 0; i < kLinks; ++i) {
    const ValueId next = builder.Make(kRows);
    builder.Call("f", {Read(x), Write(next)});
    x = next;
  }
  builder.Output("y", x);
  const ProgramSteps steps = ExpandProgram(Lower(builder), 0);
  const int64_t tile = kRows.largest_tile().NumElements() * 4;
  EXPECT_EQ(steps.arena_bytes, 2 * tile) << "one is read while the next is written";
  EXPECT_EQ(steps.arena_bytes_bound, 2 * tile);
  EXPECT_EQ(steps.arena_bytes_apart, kLinks * tile);
}

TEST(ProgramStepsTest, AnOutputIsKeptToTheEnd) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId kept = builder.Make(kRows);
  builder.Call("f", {Read(x), Write(kept)});
  builder.Output("kept", kept);
  const ValueId other = builder.Make(kRows);
  builder.Call("f", {Read(x), Write(other)});
  builder.Call("f", {Update(other)});
  const ProgramSteps steps = ExpandProgram(Lower(builder), 0);
  EXPECT_NE(steps.buffers[1].arena_offset, steps.buffers[2].arena_offset);
}

// As many operations as there may be, each with buffers of its own.
ProgramBuilder ChainOfExchanges() {
  ProgramBuilder builder;
  ValueId value =
      builder.Input("x", LayoutOn(LineOf({0, 1, 2, 3, 4, 5, 6, 7}), Placement::Shard(0)));
  for (size_t i = 0; i < Program::kMaxOps; ++i) {
    value = builder.AllToAll(value, "x", i % 2 == 0 ? 1 : 0);
  }
  builder.Output("y", value);
  return builder;
}

TEST(ProgramStepsTest, ALargeProgramIsExpandedInFewLooks) {
  const LoweredProgram lowered = Lower(ChainOfExchanges());
  int questions = 0;
  const StatusOr<ProgramSteps> steps = ExpandProgram(lowered, 1, {.lanes_overlap = true}, [&] {
    ++questions;
    return false;
  });
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_GE(steps->buffers.size(), 2 * Program::kMaxOps);
  // One for each operation, and for each 65,536 looks at a buffer; all pairs of buffers would be
  // a thousand.
  EXPECT_LE(questions, static_cast<int>(Program::kMaxOps) + 20);
  EXPECT_EQ(steps->arena_bytes, steps->arena_bytes_bound);
}

TEST(ProgramStepsTest, ExpandingCanBeGivenUp) {
  const LoweredProgram lowered = Lower(ChainOfExchanges());
  // Between two operations, and when all that is left is to place the buffers.
  for (const int last : {100, static_cast<int>(Program::kMaxOps) + 1}) {
    int questions = 0;
    const auto is_given_up = [&] { return ++questions == last; };
    EXPECT_EQ(ExpandProgram(lowered, 1, {}, is_given_up).status().code(), StatusCode::kAborted);
    EXPECT_EQ(questions, last);
  }
}

}  // namespace
}  // namespace lockstep::plan
