// What steps took, beside what was predicted.
#include "tools/cli/plan/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <vector>

#include "tests/unit/tools/cli/plan/plan_text.h"
#include "tools/cli/plan/explain_json.h"
#include "tools/cli/plan/explain_text.h"
#include "tools/text/terminal.h"

namespace lockstep::cli::plan_file {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two ranks meet in an allgather and call a function; rank 1 comes later, and is slower.
constexpr char kPair[] = R"(plan:
  meshes: {all: {ranks: 0-1}}
  layouts:
    rows: {shape: [64, 64], mesh: all, placements: [shard(0)]}
    whole: {shape: [64, 64], mesh: all, placements: [replicate]}
  inputs: {x: rows}
  steps:
    - {reshard: x, to: whole, as: y}
    - {call: f, args: [update $y]}
  outputs: [y]
)";

constexpr char kGather[] = "allgather, layers.yaml:8";
constexpr char kCall[] = "f, layers.yaml:9";

TEST(PlanAnalysisTest, WhatStepsTookIsPutBesideWhatWasPredicted) {
  const StatusOr<PlanFile> file = ReadText(kPair);
  ASSERT_TRUE(file.ok()) << file.status();
  std::map<Rank, std::vector<MeasuredStep>> measured;
  for (const uint64_t execution : {7, 8, 9}) {
    const auto at = static_cast<int64_t>(execution) * 1'000'000;
    measured[0].push_back({execution, 0, at, at + 50'000, kGather});
    measured[0].push_back({execution, 1, at + 50'000, at + 53'000, kCall});
    measured[1].push_back({execution, 0, at + 20'000, at + 60'000, kGather});
    // Once it takes long: that is not the median.
    measured[1].push_back(
        {execution, 1, at + 60'000, at + (execution == 8 ? 900'000 : 64'000), kCall});
  }
  const StatusOr<PlanAnalysis> analysis = Analyze(*file, measured);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_EQ(analysis->executions, 3u);
  EXPECT_EQ(analysis->fastest, 64);
  EXPECT_EQ(analysis->median, 64);
  EXPECT_EQ(analysis->slowest, 900);
  EXPECT_EQ(analysis->slowest_rank, 1);
  const std::vector<StepAnalysis>& first = analysis->ranks.at(0).times;
  EXPECT_EQ(first[0].waited, 20);
  EXPECT_EQ(first[0].measured, 30);
  EXPECT_EQ(first[0].predicted, analysis->predicted) << "functions are not predicted";
  EXPECT_TRUE(first[0].is_predicted);
  EXPECT_FALSE(first[1].is_predicted);
  EXPECT_EQ(analysis->ranks.at(1).times[0].measured, 40);
  EXPECT_EQ(analysis->ranks.at(1).times[0].waited, 0);
  std::ostringstream out;
  PrintAnalysis(out, text::Style(false), *file, *analysis, 0);
  EXPECT_THAT(out.str(),
              AllOf(HasSubstr("3 executions on 2 ranks: 64 us each (median; 64 us to "
                              "900 us), predicted "),
                    HasSubstr("Steps of rank 0\n"), HasSubstr("layers.yaml:8"),
                    HasSubstr("30 us   20 us    40 us  rank 1"), HasSubstr("layers.yaml:9")));
  EXPECT_EQ(AnalysisToJson(*file, *analysis)["ranks"][1]["steps"][1]["predicted_us"], nullptr);
}

TEST(PlanAnalysisTest, AnAnalyzedPlanNeedsAWorkerForEachRank) {
  const StatusOr<PlanFile> file = ReadText(kPlan);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(CheckWorkers(*file, 4), OkStatus());
  EXPECT_EQ(Message(CheckWorkers(*file, 2)),
            "the plan has ranks 0-3, and so needs 4 workers; there are 2");
}

TEST(PlanAnalysisTest, OtherStepsThanARankHasAreNotCompared) {
  const StatusOr<PlanFile> file = ReadText(kPair);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<MeasuredStep> whole = {{1, 0, 0, 1, kGather}, {1, 1, 1, 2, kCall}};
  EXPECT_EQ(Analyze(*file, {{0, whole}, {1, whole}}).status(), OkStatus());
  EXPECT_THAT(Message(Analyze(*file, {{0, whole}}).status()),
              HasSubstr("rank 1 has recorded 0 steps of 1 execution, and has 2 in each"));
  std::vector<MeasuredStep> other = whole;
  other[1].step = 7;
  EXPECT_THAT(Message(Analyze(*file, {{0, other}, {1, whole}}).status()),
              HasSubstr("rank 0 has recorded other steps"));
  other = whole;
  other[0].name = "alltoall, layers.yaml:8";
  EXPECT_THAT(Message(Analyze(*file, {{0, other}, {1, whole}}).status()),
              HasSubstr("rank 0 has recorded other steps"));
}

}  // namespace
}  // namespace lockstep::cli::plan_file
