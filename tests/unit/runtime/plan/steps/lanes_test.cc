// Which steps of a rank may go on at the same time, and what begins early for that.
#include "runtime/plan/steps/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/steps/program_steps.h"
#include "tests/unit/runtime/plan/program_under_test.h"

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using testing::Lower;
using testing::StepsOf;

const Mesh kTwo = *Mesh::Line({0, 1});
const Layout kParts = *Layout::Make({64, 64}, DType::kFloat32, kTwo, {Placement::Shard(0)});
const Layout kAll = *Layout::Make({64, 64}, DType::kFloat32, kTwo, {Placement::Replicate()});

TEST(LanesTest, AStepWaitsForWhatItUses) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kParts);
  const ValueId y = builder.Make(kParts);
  builder.Call("make", {Read(x), Write(y)});
  const ValueId whole = builder.Reshard(y, kAll);
  builder.Call("beside", {Read(x)});
  builder.Call("use", {Read(whole)});
  builder.Call("use", {Read(whole)});
  builder.Call("change", {Update(y)});
  builder.Output("again", builder.Reshard(y, kAll));
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(StepsOf(ExpandProgram(lowered, 0), *lowered.program),
              ElementsAre("make", "allgather after 0", "beside", "use after 1", "use", "change",
                          "allgather after 5"));
}

// Reading and writing of one buffer are not at the same time, whichever comes first.
TEST(LanesTest, WhatIsStillReadIsNotWritten) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kParts);
  builder.Output("whole", builder.Reshard(x, kAll));
  builder.Call("change", {Update(x)});
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(StepsOf(ExpandProgram(lowered, 1), *lowered.program),
              ElementsAre("allgather", "change after 0"));
}

TEST(LanesTest, AnExchangeBeginsBeforeACallThatHasNothingToDoWithIt) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kParts);
  const ValueId y = builder.Input("y", kParts);
  builder.Call("first", {Update(x)});
  builder.Call("second", {Update(x)});
  const ValueId whole = builder.Reshard(y, kAll);
  builder.Call("use", {Read(whole)});
  builder.Output("x_whole", builder.Reshard(x, kAll));
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(
      StepsOf(ExpandProgram(lowered, 0), *lowered.program),
      ElementsAre("first", "allgather after 0", "second", "allgather after 2", "use after 1"))
      << "before one call, not before all";
  ASSERT_EQ(lowered.notes.size(), 2u);
  EXPECT_THAT(lowered.notes[0], HasSubstr("begins before the call at lanes_test.cc:"));
}

TEST(LanesTest, AnExchangeStaysBehindACallThatUsesTheSame) {
  const auto notes = [](auto&& call) {
    ProgramBuilder builder;
    const ValueId x = builder.Input("x", kParts);
    const ValueId source = call(builder, x);
    builder.Output("y", builder.Reshard(source, kAll));
    return Lower(builder).notes;
  };
  EXPECT_THAT(notes([](ProgramBuilder& builder, ValueId x) {
                builder.Call("change", {Update(x)});
                return x;
              }),
              IsEmpty());
  EXPECT_THAT(notes([](ProgramBuilder& builder, ValueId x) {
                return builder.Call("make", {Read(x)}, kParts);
              }),
              IsEmpty());
  EXPECT_THAT(notes([](ProgramBuilder& builder, ValueId x) {
                builder.Call("read", {Read(x)});
                return x;
              }),
              ElementsAre(HasSubstr("begins before")));
}

// Memory that a call uses is not what an exchange at the same time receives into; but what comes
// and goes layer by layer is used again, for exchanges do not run ahead.
TEST(LanesTest, MemoryIsUsedAgainWhereTheLanesHaveWaited) {
  constexpr int kLayers = 6;
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kParts);
  for (int layer = 0; layer < kLayers; ++layer) {
    const ValueId weights = builder.Input("w" + std::to_string(layer), kParts);
    builder.Call("layer", {Update(x), Read(builder.Reshard(weights, kAll))});
  }
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(
      StepsOf(ExpandProgram(lowered, 0), *lowered.program),
      ElementsAre("allgather", "allgather", "layer after 0", "allgather after 2", "layer after 1",
                  "allgather after 4", "layer after 3", "allgather after 6", "layer after 5",
                  "allgather after 8", "layer after 7", "layer after 9"));
  const int64_t tile = kAll.shape().NumElements() * 4;
  EXPECT_EQ(ExpandProgram(lowered, 0).arena_bytes, 2 * tile) << "this layer's and the next one's";
  EXPECT_EQ(ExpandProgram(lowered, 0, {.lanes_overlap = true}).arena_bytes, 2 * tile);
}

TEST(LanesTest, WhatIsUsedBesideAnExchangeSharesNoMemoryWithIt) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kParts);
  const ValueId whole = builder.Reshard(x, kAll);
  const ValueId scratch = builder.Make(kAll);
  builder.Call("beside", {Write(scratch)});
  builder.Call("use", {Read(whole)});
  const LoweredProgram lowered = Lower(builder);
  const ProgramSteps steps = ExpandProgram(lowered, 0, {.lanes_overlap = true});
  const auto place = [&](ValueId id) {
    return steps.buffers[static_cast<size_t>(id)].arena_offset;
  };
  EXPECT_NE(place(whole), place(scratch));
}

// Of small tensors: eight bytes on each of two ranks.
TEST(LanesTest, SmallExchangesInARowAreOne) {
  const Layout sums =
      *Layout::Make({2}, DType::kFloat32, kTwo, {Placement::Partial(Reduction::kSum)});
  const Layout all = *sums.With({Placement::Replicate()});
  const Layout maxima = *sums.With({Placement::Partial(Reduction::kMax)});
  const auto steps_of = [&](std::vector<Layout> layouts, bool with_call) {
    ProgramBuilder builder;
    for (size_t i = 0; i < layouts.size(); ++i) {
      const std::string number = std::to_string(i);
      const ValueId x = builder.Input("x" + number, layouts[i]);
      builder.Output("y" + number, builder.Reshard(x, *layouts[i].With({Placement::Replicate()})));
      // An exchange is moved ahead of one call, and not of two.
      for (int calls = 0; with_call && calls < 2; ++calls) builder.Call("f", {Read(x)});
    }
    const LoweredProgram lowered = Lower(builder);
    return StepsOf(ExpandProgram(lowered, 1), *lowered.program);
  };
  EXPECT_THAT(steps_of({sums, sums, sums}, false),
              ElementsAre("copy", "copy", "copy", "allreduce", "copy", "copy", "copy"));
  EXPECT_THAT(steps_of({sums, maxima, maxima}, false),
              ElementsAre("allreduce", "copy", "copy", "allreduce", "copy", "copy"));
  EXPECT_THAT(steps_of({sums, sums}, true),
              ElementsAre("allreduce", "f", "allreduce after 1", "f", "f", "f"));
  const Layout large = *Layout::Make({1 << 20}, DType::kFloat32, kTwo, sums.placements());
  EXPECT_THAT(steps_of({large, large}, false), ElementsAre("allreduce", "allreduce"))
      << "to pack it takes longer";
}

TEST(LanesTest, AnExchangeThatNeedsAnotherIsNotOneWithIt) {
  const Layout small = *Layout::Make({4, 2}, DType::kFloat32, kTwo, {Placement::Shard(0)});
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", small);
  const ValueId y = builder.AllToAll(x, "x", 1);
  builder.Output("y", y);
  builder.Output("z", builder.AllToAll(y, "x", 0));
  const LoweredProgram lowered = Lower(builder);
  for (const LoweredOp& op : lowered.ops) EXPECT_FALSE(op.with_previous);
}

TEST(LanesTest, WhatIsDoneTogetherNamesAllOfItsLines) {
  const Layout rows = *Layout::Make({4, 2}, DType::kFloat32, kTwo, {Placement::Shard(0)});
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", rows);
  builder.Output("y", builder.AllGather(x, "x", {"a.cc", 1}));
  builder.Output("z", builder.AllGather(x, "x", {"a.cc", 2}));
  const LoweredProgram lowered = Lower(builder);
  EXPECT_THAT(lowered.notes, ElementsAre("a.cc:2: exchanged together with what a.cc:1 exchanges"));
  const ProgramSteps steps = ExpandProgram(lowered, 0);
  std::vector<std::string> lines;
  for (const ProgramStep& step : steps.steps) lines.push_back(LinesOf(*lowered.program, step));
  EXPECT_THAT(lines, ElementsAre("a.cc:1", "a.cc:2", "a.cc:1, a.cc:2", "a.cc:1", "a.cc:2"));
  EXPECT_THAT(steps.teams, ::testing::SizeIs(1));
}

}  // namespace
}  // namespace lockstep::plan
