// How a plan is explained, to people and to scripts.
#include "tools/cli/plan/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>

#include "tests/unit/tools/cli/plan/plan_text.h"
#include "tools/cli/plan/explain_json.h"
#include "tools/cli/plan/explain_text.h"
#include "tools/cli/plan/graph_on_gpus.h"
#include "tools/text/terminal.h"

namespace lockstep::cli::plan_file {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PlanExplainTest, IsExplained) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  const text::Style style(false);
  EXPECT_EQ(ExplainPlan(out, style, *file), OkStatus());
  EXPECT_EQ(ExplainRank(out, style, *file, 3), OkStatus());
  EXPECT_EQ(SimulatePlan(out, *file), OkStatus());
  EXPECT_THAT(
      out.str(),
      AllOf(HasSubstr("4 operations, 5 values, 4 ranks on 2 nodes"),
            HasSubstr("on GPUs: one graph, if these functions say that they may be captured: "
                      "scale (layers.yaml:"),
            HasSubstr("layers.yaml:12  x to all_of_it  allgather along x  12 KiB  12 KiB  "
                      "8 KiB  8 KiB"),
            HasSubstr("scale(all_of_it, write scratch, ..., ..., ..., ...)"),
            HasSubstr("f(update scratch) to y"), HasSubstr("what a function returns"),
            HasSubstr("simulated 4 ranks, ")));
  EXPECT_THAT(Message(ExplainRank(out, style, *file, 4)),
              HasSubstr("rank 4 has no part in the plan; it has ranks 0-3"));
}

TEST(PlanExplainTest, TimesHaveThreeDigitsAndAUnitThatFits) {
  const std::pair<double, std::string> cases[] = {
      {0, "0.0 us"},       {2.46, "2.5 us"},    {9.96, "10 us"},     {153.4, "153 us"},
      {999.4, "999 us"},   {999.6, "1.00 ms"},  {1234, "1.23 ms"},   {22212, "22.2 ms"},
      {419'027, "419 ms"}, {999'400, "999 ms"}, {999'600, "1.00 s"}, {12'345'678, "12.3 s"}};
  for (const auto& one : cases) EXPECT_EQ(MicrosText(one.first), one.second);
}

// An all-to-all packs a copy for each other rank, and unpacks as many.
TEST(PlanExplainTest, LikeCopiesAreOneRowForPeople) {
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-9}}
  layouts:
    rows: {shape: [10, 45], mesh: all, placements: [shard(0)]}
    columns: {shape: [10, 45], mesh: all, placements: [shard(1)]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: columns, as: y}
  outputs: [y]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  ASSERT_TRUE(ExplainRank(out, text::Style(false), *file, 4).ok());
  EXPECT_THAT(out.str(), AllOf(HasSubstr("9 copies of 16 B to 20 B each, x to #2"),
                               HasSubstr("9 copies of 20 B each, #3 to y"), Not(HasSubstr("1,0"))));
  const StatusOr<RankFacts> facts = FindRank(*file, 4);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(RankToJson(4, *facts)["steps"].size(), 20u) << "9 + 9, its own, and the exchange";
}

TEST(PlanExplainTest, RowsOfMemoryThatDifferDoNotLookEqual) {
  // One has 501 rows of the result, the other 500.
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {all: {ranks: 0-1}}
  layouts:
    rows: {shape: [1001, 1000], mesh: all, placements: [shard(0)]}
    columns: {shape: [1001, 1000], mesh: all, placements: [shard(1)]}
    whole: {shape: [1001, 1000], mesh: all, placements: [replicate]}
    parts: {shape: [1001, 1000], mesh: all, placements: [partial(sum)]}
  inputs: {x: columns}
  steps:
    - {reshard: x, to: whole, as: w}
    - {call: f, args: [$w], result: parts, as: p}
    - {reshard: p, to: rows, as: y}
    - {call: g, args: [update $y]}
  outputs: [y]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  ASSERT_TRUE(ExplainPlan(out, text::Style(false), *file).ok());
  EXPECT_THAT(out.str(), AllOf(HasSubstr("MiB  10,012,096 B\n"), HasSubstr("MiB  10,008,064 B\n")));
  std::ostringstream rank;
  ASSERT_TRUE(ExplainRank(rank, text::Style(false), *file, 1).ok());
  EXPECT_THAT(rank.str(), HasSubstr("  #N: a buffer that is needed in between, and is no value's"));
}

TEST(PlanExplainTest, WhatCannotBeCapturedOnGpusIsNamed) {
  std::string text = kPlan;
  text.replace(text.find("{call: scale, args: [$all_of_it"), 31,
               "{call: lockstep.identity, args: [$all_of_it");
  const StatusOr<PlanFile> file = ReadText(text);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Describe(FindGraphOnGpus(*file)),
            "step by step, as layers.yaml:14 calls lockstep.identity, which cannot be captured");
}

// Bytes of all ranks: 1,024 numbers that each of four lacks three quarters of, or two all of it
// but a quarter.
TEST(PlanExplainTest, FragmentsShowSplitsAndWhatIsSent) {
  const StatusOr<PlanFile> file = ReadText(kFragments);
  ASSERT_TRUE(file.ok()) << file.status();
  std::ostringstream out;
  EXPECT_EQ(ExplainPlan(out, text::Style(false), *file), OkStatus());
  EXPECT_EQ(ExplainRank(out, text::Style(false), *file, 3), OkStatus());
  EXPECT_THAT(
      out.str(),
      AllOf(HasSubstr("on GPUs: step by step, as layers.yaml:8 calls the fragment scale.mlir\n"),
            HasSubstr("layers.yaml:8   scale.mlir  x (rows)          y (rows)            0\n"),
            HasSubstr("layers.yaml:10  sum.mlir    y (rows)          s (add): 48 B    48 B\n"),
            HasSubstr("layers.yaml:13  sum.mlir    y (none): 24 KiB  t (none)       24 KiB\n"),
            HasSubstr("layers.yaml:14  sum.mlir    y (none): 12 KiB  u (none)       12 KiB\n"),
            HasSubstr("sum.mlir(y.none"), HasSubstr("scale.mlir(x, ..., write y)")));
  const Json fragments = PlanToJson(*file)["fragments"];
  ASSERT_EQ(fragments.size(), 4u);
  EXPECT_EQ(fragments[2]["where"], "layers.yaml:13");
  EXPECT_EQ(fragments[2]["inputs"][0]["split"], "none");
  EXPECT_EQ(fragments[2]["inputs"][0]["sent_bytes"], 24 << 10);
  EXPECT_EQ(fragments[1]["results"][0]["combine"], "add");
}

TEST(PlanExplainTest, IsExplainedToScripts) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  const Json plan = PlanToJson(*file);
  EXPECT_EQ(plan["operations"], 4);
  EXPECT_EQ(plan["nodes"], 2);
  EXPECT_THAT(plan["graph_on_gpus"].get<std::string>(), HasSubstr("one graph, if"));
  ASSERT_EQ(plan["reshards"].size(), 2u);
  const Json& gather = plan["reshards"][0];
  EXPECT_EQ(gather["where"], "layers.yaml:12");
  EXPECT_EQ(gather["as"], "allgather along x");
  EXPECT_EQ(gather["busiest_rank_bytes"], 12 << 10);
  EXPECT_EQ(gather["busiest_node_bound_bytes"], 8 << 10);
  EXPECT_EQ(plan["memory"][0]["ranks"], (Json{0, 1, 2, 3}));
  const StatusOr<RankFacts> facts = FindRank(*file, 3);
  ASSERT_TRUE(facts.ok()) << facts.status();
  const Json rank = RankToJson(3, *facts);
  EXPECT_EQ(rank["steps"][0]["kind"], "allgather");
  EXPECT_EQ(rank["steps"][2]["what"], "f(update scratch) to y");
  EXPECT_EQ(rank["buffers"][0]["shape"], (Json{16, 64}));
  EXPECT_EQ(rank["buffers"][0]["offset"], nullptr) << "an input lies in its register";
  const StatusOr<SimulationFacts> simulation = RunSimulation(*file);
  ASSERT_TRUE(simulation.ok()) << simulation.status();
  EXPECT_EQ(SimulationToJson(*simulation)["ranks"], 4);
}

// From ranks 0 and 1 to ranks 2 and 3: an empty end of an exchange has some buffer's number.
TEST(PlanExplainTest, WhatARankDoesNotExchangeIsNotNamed) {
  const StatusOr<PlanFile> file = ReadText(R"(plan:
  meshes: {here: {ranks: 0-1}, there: {ranks: 2-3}}
  layouts:
    rows: {shape: [64, 8], mesh: here, placements: [shard(0)]}
    moved: {shape: [64, 8], mesh: there, placements: [shard(0)]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: moved, as: y}
  outputs: [y]
)");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<StepFacts> sent = DescribeSteps(*file, file->StepsOf(0));
  ASSERT_FALSE(sent.empty());
  EXPECT_THAT(sent.front().what, HasSubstr("x to (others), "));
  EXPECT_EQ(sent.front().bytes, 1024);
  const std::vector<StepFacts> received = DescribeSteps(*file, file->StepsOf(2));
  ASSERT_FALSE(received.empty());
  EXPECT_THAT(received.front().what, HasSubstr("(others) to y, "));
}

}  // namespace
}  // namespace lockstep::cli::plan_file
