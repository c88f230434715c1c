#include "tools/bench/statistics.h"

#include <gtest/gtest.h>

namespace lockstep::bench {
namespace {

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
