// Calls in chunks: which steps they become, and that nothing else comes out of them.
#include "runtime/plan/chunks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/plan/passes/program_lowering.h"
#include "runtime/plan/steps/program_steps.h"
#include "runtime/plan/steps/simulator.h"
#include "tests/unit/runtime/plan/program_under_test.h"

namespace lockstep::plan {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using testing::kColumns;
using testing::kRows;
using testing::kWhole;
using testing::LayoutOn;
using testing::LineOf;
using testing::Lower;

const Layout kPartialSums = LayoutOn(LineOf({0, 1}), Placement::Partial(Reduction::kSum));
constexpr Chunks kInTwo{.count = 2};

std::vector<std::string> Steps(const LoweredProgram& lowered, Rank rank = 0) {
  return testing::StepsOf(ExpandProgram(lowered, rank), *lowered.program);
}

TEST(ChunksTest, WhatIsGatheredForAChunkGoesOnBesideTheCallForTheOneBefore) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId y = builder.CallInChunks("f", {Read(builder.Reshard(x, kWhole))}, kColumns, kInTwo);
  builder.Call("g", {Read(y)});
  const LoweredProgram lowered = Lower(builder);
  // Nothing is copied of x, whose chunks lie in it; y is put together from what f returns, whose
  // rows are of two ranks.
  EXPECT_THAT(Steps(lowered),
              ElementsAre("allgather", "allgather", "f after 0", "copy", "f after 1", "copy", "g"));
  EXPECT_EQ(lowered.program->ops()[0].where, lowered.program->ops()[1].where);
  EXPECT_THAT(lowered.program->ops()[1].where,
              AllOf(HasSubstr("chunks_test.cc:"), HasSubstr(", chunk 1 of 2")));
  EXPECT_THAT(lowered.notes, ElementsAre(HasSubstr("in 2 chunks: ")));
  const ProgramSteps steps = ExpandProgram(lowered, 1);
  EXPECT_EQ(std::get<CollectiveStep>(steps.steps[1].what).send.count, 16 * 64);
  const int second = std::get<CollectiveStep>(steps.steps[1].what).send.buffer;
  EXPECT_EQ(steps.RootOf(second), static_cast<int>(x));
  EXPECT_EQ(steps.buffers[static_cast<size_t>(second)].offset, 16 * 64);
}

TEST(ChunksTest, WhatACallReturnsForAChunkIsScatteredBesideTheNextCall) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kWhole);
  const ValueId sums = builder.CallInChunks("f", {Read(x)}, kPartialSums, kInTwo);
  const ValueId y = builder.Reshard(sums, kRows);
  builder.Output("y", y);
  const LoweredProgram lowered = Lower(builder);
  // The rows of a chunk are of two ranks, so they are brought together for the call.
  EXPECT_THAT(Steps(lowered), ElementsAre("copy", "copy", "f", "reduce-scatter after 2", "f",
                                          "reduce-scatter after 4"));
  const ProgramSteps steps = ExpandProgram(lowered, 0, {.lanes_overlap = true});
  const int second = std::get<CollectiveStep>(steps.steps[5].what).recv.buffer;
  EXPECT_EQ(steps.RootOf(second), static_cast<int>(y)) << "nothing is copied of y";
}

TEST(ChunksTest, ChunksGoThroughAChainOfCalls) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId f = builder.CallInChunks("f", {Read(builder.Reshard(x, kWhole))}, kColumns, kInTwo);
  const ValueId g = builder.CallInChunks("g", {Read(f)}, kPartialSums, kInTwo);
  builder.Output("y", builder.Reshard(g, kRows));
  EXPECT_THAT(Steps(Lower(builder)),
              ElementsAre("allgather", "allgather", "f after 0", "g", "reduce-scatter after 3",
                          "f after 1", "g", "reduce-scatter after 6"));
}

TEST(ChunksTest, OneChunkIsNothing) {
  const auto lowered_in = [](int count) {
    ProgramBuilder builder;
    const ValueId x = builder.Input("x", kRows);
    builder.Output("y", builder.CallInChunks("f", {Read(builder.Reshard(x, kWhole))}, kWhole,
                                             {.count = count}));
    return Lower(builder);
  };
  EXPECT_THAT(Steps(lowered_in(1)), ElementsAre("allgather", "f after 0"));
  EXPECT_THAT(lowered_in(1).notes, IsEmpty());
}

// What rank 0 and the others hold in the end: y = f(x), where each row of f's result is of that row
// of its argument.
std::vector<std::vector<float>> ResultOf(const Layout& x_layout, const Layout& read,
                                         const Layout& returned, const Layout& y_layout,
                                         int count) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", x_layout);
  const ValueId y = builder.Reshard(
      builder.CallInChunks("f", {Read(builder.Reshard(x, read))}, returned, {.count = count}),
      y_layout);
  builder.Output("y", y);
  const LoweredProgram lowered = Lower(builder);
  EXPECT_EQ(lowered.notes.empty(), count == 1);
  std::map<Rank, SimulatedRank> ranks;
  for (const Rank rank : lowered.program->Ranks()) {
    ranks[rank].program = ExpandProgram(lowered, rank, {.lanes_overlap = true});
    ranks[rank].Allocate();
    auto* const elements = reinterpret_cast<float*>(ranks[rank].At(static_cast<int>(x)));
    const int64_t size = x_layout.TileAt(*x_layout.mesh().IndexOf(rank)).NumElements();
    for (int64_t i = 0; i < size; ++i) {
      elements[i] = 1.0F / static_cast<float>(1 + i + 7 * rank);
    }
  }
  const Status status = Simulate(ranks, [&](Rank rank, const CallStep& step, SimulatedRank& state) {
    const auto& in = state.program.buffers[static_cast<size_t>(step.argument_buffers[0])];
    const auto& out = state.program.buffers[static_cast<size_t>(step.result_buffer)];
    EXPECT_EQ(in.extents[0], out.extents[0]);
    const auto* const from = reinterpret_cast<const float*>(state.At(step.argument_buffers[0]));
    auto* const to = reinterpret_cast<float*>(state.At(step.result_buffer));
    for (int64_t row = 0; row < in.extents[0]; ++row) {
      float sum = 0;
      for (int64_t i = 0; i < in.extents[1]; ++i) sum += from[row * in.extents[1] + i];
      for (int64_t i = 0; i < out.extents[1]; ++i) {
        to[row * out.extents[1] + i] = sum * static_cast<float>(1 + i + rank);
      }
    }
    return OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  std::vector<std::vector<float>> tiles;
  for (auto& [rank, state] : ranks) {
    const std::optional<int> index = y_layout.mesh().IndexOf(rank);
    if (!index.has_value()) continue;
    const auto* const begin = reinterpret_cast<const float*>(state.At(static_cast<int>(y)));
    tiles.emplace_back(begin, begin + y_layout.TileAt(*index).NumElements());
  }
  return tiles;
}

// Floating point, where another order would round otherwise; rows that do not divide evenly.
TEST(ChunksTest, TheResultHasTheSameBitsAsWithoutChunks) {
  const Mesh four = LineOf({2, 0, 3, 1});
  const auto on = [&](const Placement& placement, const Shape& shape) {
    return LayoutOn(four, placement, shape);
  };
  const Shape wide({29, 6});
  const Shape narrow({29, 5});
  const Layout given = on(Placement::Shard(0, {3, 0, 17, 9}), wide);
  const Layout sums = on(Placement::Partial(Reduction::kSum), narrow);
  for (const Layout& x : {on(Placement::Shard(0), wide), given, on(Placement::Shard(1), wide)}) {
    for (const Layout& y : {on(Placement::Shard(0), narrow), on(Placement::Shard(1), narrow),
                            on(Placement::Replicate(), narrow)}) {
      SCOPED_TRACE(x.ToString() + " to " + y.ToString());
      const Layout read = on(Placement::Replicate(), wide);
      const auto at_once = ResultOf(x, read, sums, y, 1);
      for (const int count : {2, 3, 4, 50}) {
        const auto in_chunks = ResultOf(x, read, sums, y, count);
        ASSERT_EQ(in_chunks.size(), at_once.size());
        for (size_t i = 0; i < at_once.size(); ++i) {
          ASSERT_EQ(in_chunks[i].size(), at_once[i].size());
          EXPECT_EQ(std::memcmp(in_chunks[i].data(), at_once[i].data(),
                                at_once[i].size() * sizeof(float)),
                    0)
              << "tile " << i << " in " << count << " chunks";
        }
      }
    }
  }
}

TEST(ChunksTest, ChunksAreBalancedOverRanks) {
  ProgramBuilder builder;
  const Mesh four = LineOf({0, 1, 2, 3});
  const Layout rows = LayoutOn(four, Placement::Shard(0), {70, 8});
  const ValueId x = builder.Input("x", rows);
  const ValueId whole = builder.Reshard(x, LayoutOn(four, Placement::Replicate(), {70, 8}));
  builder.Output("y",
                 builder.CallInChunks("f", {Read(whole)}, builder.LayoutOf(whole), {.count = 4}));
  const LoweredProgram lowered = Lower(builder);
  const ProgramSteps steps = ExpandProgram(lowered, 1);
  std::vector<std::vector<int64_t>> counts;
  for (const ProgramStep& step : steps.steps) {
    const auto* const gather = std::get_if<CollectiveStep>(&step.what);
    if (gather != nullptr) counts.push_back(gather->counts);
  }
  // Of 18, 18, 17 and 17 rows of 8 elements.
  EXPECT_THAT(counts, ElementsAre(ElementsAre(40, 40, 40, 40), ElementsAre(40, 40, 32, 32),
                                  ElementsAre(32, 32, 32, 32), ElementsAre(32, 32, 32, 32)));
}

// Takes minutes if each chunk of each rank goes through what all ranks have.
TEST(ChunksTest, TilesOfThousandsOfRanksAreCut) {
  std::vector<Rank> ranks;
  std::vector<int64_t> extents;
  int64_t rows = 0;
  for (int i = 0; i < 8192; ++i) {
    ranks.push_back(i);
    extents.push_back(96 + 2 * (i % 2));
    rows += extents.back();
  }
  const Layout given = LayoutOn(LineOf(ranks), Placement::Shard(0, extents), {rows, 1});
  ProgramBuilder builder;
  const ValueId whole =
      builder.Reshard(builder.Input("x", given), *given.With({Placement::Replicate()}));
  builder.Output("y",
                 builder.CallInChunks("f", {Read(whole)}, builder.LayoutOf(whole), {.count = 64}));
  EXPECT_TRUE(builder.Build().ok());
}

TEST(ChunksTest, ACallThatCannotBeDoneInChunksIsRefused) {
  const auto error = [](auto&& add) {
    ProgramBuilder builder;
    const ValueId x = builder.Input("x", kRows);
    add(builder, builder.Reshard(x, kWhole), x);
    return Message(builder.Build().status());
  };
  EXPECT_THAT(error([](ProgramBuilder& builder, ValueId whole, ValueId) {
                builder.CallInChunks("f", {Read(whole)}, kRows, kInTwo);
              }),
              AllOf(HasSubstr("chunks_test.cc:"), HasSubstr("f in chunks: rank 0 has 0 to 64 of "
                                                            "dimension 0 of what it reads, and 0 "
                                                            "to 32 of dimension 0 of what it "
                                                            "returns")));
  EXPECT_THAT(error([](ProgramBuilder& builder, ValueId whole, ValueId) {
                builder.CallInChunks("f", {Read(whole)}, kWhole, {.count = 2, .along = 2});
              }),
              HasSubstr("it cannot be done in chunks along dimension 2 of its argument, which is "
                        "[64, 64]"));
  EXPECT_THAT(error([](ProgramBuilder& builder, ValueId whole, ValueId) {
                builder.CallInChunks("f", {plan::Pass(0.5), Read(whole)}, kWhole, kInTwo);
              }),
              HasSubstr("the argument of its chunks, number 0 from 0 on, is no tensor"));
  EXPECT_THAT(
      error([](ProgramBuilder& builder, ValueId whole, ValueId) {
        builder.CallInChunks("f", {Read(whole), Write(builder.Make(kWhole))}, kWhole, kInTwo);
      }),
      HasSubstr("it writes to an argument"));
  EXPECT_THAT(error([](ProgramBuilder& builder, ValueId whole, ValueId) {
                builder.CallInChunks("f", {Read(whole)}, kWhole, {.count = 65});
              }),
              HasSubstr("in 1 to 64 chunks, not 65"));
  // Others read what is gathered, too.
  EXPECT_THAT(error([](ProgramBuilder& builder, ValueId whole, ValueId) {
                builder.CallInChunks("f", {Read(whole)}, kWhole, kInTwo);
                builder.Call("g", {Read(whole)});
              }),
              HasSubstr("there is nothing to exchange for one chunk beside the call for another"));
  EXPECT_THAT(
      error([](ProgramBuilder& builder, ValueId whole, ValueId) {
        for (int i = 0; i < 40; ++i) {
          const ValueId y = builder.CallInChunks("f", {Read(whole)}, kWhole, {.count = 32});
          whole = builder.Reshard(builder.Reshard(y, kRows), kWhole);
        }
      }),
      AllOf(HasSubstr("chunks_test.cc:"), HasSubstr("up to here, the program in chunks has"),
            HasSubstr("make fewer chunks")));
  // Two axes deal the rows out evenly, which their halves are not: of 3, 1, 3, 4, 1 and 2 rows.
  const Mesh grid = *Mesh::Make({{"a", 2}, {"b", 2}}, {0, 1, 2, 3});
  const Layout uneven =
      *Layout::Make({14, 2}, DType::kFloat32, grid, {Placement::Shard(0), Placement::Shard(0)});
  ProgramBuilder builder;
  const ValueId whole = builder.Reshard(
      builder.Input("x", uneven), *uneven.With({Placement::Replicate(), Placement::Replicate()}));
  const ValueId y = builder.CallInChunks("f", {Read(whole)}, builder.LayoutOf(whole), kInTwo);
  builder.Output("y", builder.Reshard(y, LayoutOn(LineOf({0, 1, 2, 3}),
                                                  Placement::Shard(0, {3, 0, 9, 2}), {14, 2})));
  EXPECT_THAT(Message(builder.Build().status()), HasSubstr("the axes a, b shard dimension 0"));
}

TEST(ChunksTest, AnInputThatIsWrittenLaterIsCopied) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId y = builder.CallInChunks("f", {Read(builder.Reshard(x, kWhole))}, kWhole, kInTwo);
  builder.Call("change", {Update(x)});
  builder.Output("y", y);
  EXPECT_THAT(Steps(Lower(builder)),
              ElementsAreArray({"copy", "allgather after 0", "copy", "allgather after 2",
                                "f after 1", "copy", "f after 3", "copy", "change"}));
}

TEST(ChunksTest, AReshardBetweenTwoChainsBelongsToOneOfThem) {
  ProgramBuilder builder;
  const ValueId x = builder.Input("x", kRows);
  const ValueId f =
      builder.CallInChunks("f", {Read(builder.Reshard(x, kWhole))}, kPartialSums, kInTwo);
  const ValueId g = builder.CallInChunks("g", {Read(builder.Reshard(f, kWhole))}, kWhole, kInTwo);
  builder.Output("y", g);
  EXPECT_THAT(Steps(Lower(builder)),
              ElementsAreArray({"allgather", "allgather", "f after 0", "copy", "f after 1", "copy",
                                "allreduce after 5", "allreduce", "g after 6", "copy", "g after 7",
                                "copy"}));
}

}  // namespace
}  // namespace lockstep::plan
