// Pictures of plans.
#include "tools/cli/plan/drawing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/unit/tools/cli/plan/plan_text.h"

namespace lockstep::cli::plan_file {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PlanDrawingTest, IsDrawn) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  const StatusOr<Drawing> picture = DrawPlan(*file, 2);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->svg,
              AllOf(HasSubstr("<svg "), HasSubstr("Memory of rank 2: "),
                    HasSubstr("<title>step 0: allgather of ranks 0-3, layers.yaml:12"),
                    HasSubstr("<title>scratch: 16 KiB, steps "), HasSubstr("</svg>")));
  EXPECT_THAT(Message(DrawPlan(*file, 9).status()), HasSubstr("rank 9 has no part in the plan"));
}

TEST(PlanDrawingTest, OfManyRanksThoseAroundOneAreDrawn) {
  // Rank 0 has a call more, for which all others wait.
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-99}, one: {ranks: 0-0}}
  layouts:
    rows: {shape: [200, 2], mesh: all, placements: [shard(0)]}
    whole: {shape: [200, 2], mesh: all, placements: [replicate]}
    alone: {shape: [2], mesh: one, placements: [replicate]}
  inputs: {x: rows, y: alone}
  steps:
    - {call: f, args: [update $y]}
    - {call: g, args: [update $x]}
    - {reshard: x, to: whole, as: z}
  outputs: [z]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::pair<Rank, std::string> cases[] = {
      {0, "ranks 0-63"}, {50, "ranks 18-81"}, {90, "ranks 36-99"}};
  for (const auto& one : cases) {
    const StatusOr<Drawing> drawing = DrawPlan(*file, one.first);
    ASSERT_TRUE(drawing.ok()) << drawing.status();
    EXPECT_EQ(drawing->ranks.size(), 64u);
    EXPECT_EQ(Describe(*drawing),
              "steps of " + one.second + ", of 100; memory of rank " + std::to_string(one.first));
    EXPECT_THAT(drawing->svg, AllOf(HasSubstr(one.second + ", of 100<"),
                                    HasSubstr("Memory of rank " + std::to_string(one.first)),
                                    HasSubstr("<title>wait before step 1: allgather")));
  }
  EXPECT_EQ(Describe(Drawing{"", {2, 3}, 2, 3}), "steps of ranks 2, 3; memory of rank 3");
}

TEST(PlanDrawingTest, PicturesHaveNoControlCharacters) {
  std::string text = kPlan;
  text.replace(text.find("call: f,"), 8, R"(call: "f<",)");
  const StatusOr<PlanFile> file = ReadText(text);
  ASSERT_TRUE(file.ok()) << file.status();
  const StatusOr<Drawing> picture = DrawPlan(*file, 0);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->svg, HasSubstr(R"(f\x1b&lt;, layers.yaml:15)"));
  EXPECT_EQ(picture->svg.find('\x1b'), std::string::npos);
}

// Where lanes overlap, a buffer of exchanges counts as used until calls have waited for them; but
// the next exchange may have its place at once. A map that shows the first hides the second.
TEST(PlanDrawingTest, BuffersAreDrawnWhereStepsUseThem) {
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-3}}
  layouts:
    rows: {shape: [64, 64], mesh: all, placements: [shard(0)]}
    columns: {shape: [64, 64], mesh: all, placements: [shard(1)]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: columns, as: y}
    - {allgather: y, axis: x, as: z}
    - {call: f, args: [$z]}
  outputs: [y]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const plan::ProgramSteps steps = file->StepsOf(0);
  int packing = -1;  // the first buffer that is sent from
  int sent = -1;     // by this step
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const auto* const exchange = std::get_if<plan::CollectiveStep>(&steps.steps[i].what);
    if (exchange == nullptr) continue;
    packing = exchange->send.buffer;
    sent = static_cast<int>(i);
    break;
  }
  ASSERT_GE(sent, 0);
  ASSERT_GT(steps.buffers[static_cast<size_t>(packing)].last_step, sent) << "until calls waited";
  const StatusOr<Drawing> picture = DrawPlan(*file, 0);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->svg, HasSubstr("#" + std::to_string(packing) + ": 3 KiB, steps 1 to " +
                                      std::to_string(sent) + "<"));
}

// Chunks that are exchanged lie in y, and nothing else uses it.
TEST(PlanDrawingTest, WhatIsMadeOfChunksIsDrawn) {
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-3}}
  layouts:
    rows: {shape: [64, 8], mesh: all, placements: [shard(0)]}
    whole: {shape: [64, 8], mesh: all, placements: [replicate]}
    sums: {shape: [64, 8], mesh: all, placements: [partial(sum)]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: whole, as: w}
    - {call: f, args: [$w], result: sums, as: s, chunks: {count: 2, input: w}}
    - {reshard: s, to: rows, as: y}
  outputs: [y]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const StatusOr<Drawing> picture = DrawPlan(*file, 0);
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_THAT(picture->svg, AllOf(HasSubstr("<title>w.1: 1 KiB"), HasSubstr("<title>y: 512 B")));
}

}  // namespace
}  // namespace lockstep::cli::plan_file
