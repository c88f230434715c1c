#include "tools/bench/report.h"

#include <gtest/gtest.h>

namespace lockstep::bench {
namespace {

using Outcome = Verdict::Outcome;

Line Time(Goal goal, std::vector<double> ours) {
  return {.row = "row",
          .what = "what",
          .unit = "us",
          .better = Better::kLess,
          .goal = goal,
          .ours = std::move(ours)};
}

TEST(ReportTest, RatioOfTimesIsAboveOneWhereWeTakeLess) {
  Line line = Time(Goal::RatioAtLeast(2), {10});
  line.Rival("r").values = {30};
  EXPECT_DOUBLE_EQ(Judge(line).ratio, 3);
  EXPECT_EQ(Judge(line).outcome, Outcome::kPass);
}

TEST(ReportTest, RatioOfRatesIsAboveOneWhereWeDoMore) {
  Line line = Time(Goal::RatioAtLeast(0.8), {7});
  line.better = Better::kMore;
  line.Rival("r").values = {10};
  EXPECT_DOUBLE_EQ(Judge(line).ratio, 0.7);
  EXPECT_EQ(Judge(line).outcome, Outcome::kMiss);
}

TEST(ReportTest, RatioIsTheMedianOfTheRoundsRatios) {
  // The second round met a machine that was three times as slow; the ratios agree.
  Line line = Time(Goal::None(), {10, 30, 10});
  line.Rival("r").values = {20, 60, 20};
  EXPECT_DOUBLE_EQ(Judge(line).ratio, 2);
}

TEST(ReportTest, TheRivalWithTheBestMedianCounts) {
  Line line = Time(Goal::None(), {10});
  line.Rival("slow").values = {50};
  line.Rival("fast").values = {15};
  line.Rival("not run");
  const Verdict verdict = Judge(line);
  ASSERT_NE(verdict.best_rival, nullptr);
  EXPECT_EQ(verdict.best_rival->name, "fast");
  EXPECT_EQ(verdict.rival, 15);
}

TEST(ReportTest, GoalsOfValuesNeedNoRival) {
  EXPECT_EQ(Judge(Time(Goal::ValueAtMost(10), {10})).outcome, Outcome::kPass);
  EXPECT_EQ(Judge(Time(Goal::ValueAtMost(10), {11})).outcome, Outcome::kMiss);
  EXPECT_EQ(Judge(Time(Goal::ValueAtLeast(10), {11})).outcome, Outcome::kPass);
  EXPECT_EQ(Judge(Time(Goal::ValueAtLeast(10), {9})).outcome, Outcome::kMiss);
}

TEST(ReportTest, WithoutNumbersThereIsNoVerdict) {
  EXPECT_EQ(Judge(Time(Goal::ValueAtMost(10), {})).outcome, Outcome::kNotMeasured);
  EXPECT_EQ(Judge(Time(Goal::RatioAtLeast(1), {10})).outcome, Outcome::kNotMeasured);
  EXPECT_EQ(Judge(Time(Goal::None(), {10})).outcome, Outcome::kInformation);
}

TEST(StatisticsTest, MedianIsTheMiddleValue) {
  EXPECT_EQ(Median({5}), 5);
  EXPECT_EQ(Median({9, 1, 5}), 5);
}

TEST(StatisticsTest, MedianOfAnEvenCountIsOneOfTheValues) { EXPECT_EQ(Median({4, 1, 3, 2}), 2); }

TEST(StatisticsTest, PercentilesAreByTheNearestRank) {
  std::vector<double> hundred;
  for (int i = 100; i > 0; --i) hundred.push_back(i);
  EXPECT_EQ(Percentile(hundred, 0), 1);
  EXPECT_EQ(Percentile(hundred, 0.5), 50);
  EXPECT_EQ(Percentile(hundred, 0.99), 99);
  EXPECT_EQ(Percentile(hundred, 1), 100);
}

}  // namespace
}  // namespace lockstep::bench
