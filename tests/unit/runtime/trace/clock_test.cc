#include "runtime/trace/clock.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::trace {
namespace {

constexpr int64_t kMilli = 1'000'000;

TEST(ClockTest, OffsetAndUncertaintyAreThoseOfRfc5905) {
  ClockComparison comparison;
  EXPECT_EQ(comparison.best(), std::nullopt);
  // The reference is 1000 ahead; 30 there, 10 to think, 50 back.
  comparison.Add(100, 1130, 1140, 190);
  EXPECT_EQ(comparison.best(), (ClockSample{190, 990, 40}));
}

TEST(ClockTest, TheLeastRoundTripIsTaken) {
  ClockComparison comparison;
  comparison.Add(0, 1400, 1400, 500);
  comparison.Add(1000, 2010, 2010, 1020);
  comparison.Add(2000, 3100, 3100, 2300);
  EXPECT_EQ(comparison.count(), 3);
  EXPECT_EQ(comparison.best(), (ClockSample{1020, 1000, 10}));
}

TEST(ClockTest, WhatCannotBeSoIsIgnored) {
  ClockComparison comparison;
  comparison.Add(100, 0, 0, 50);    // heard before it was asked
  comparison.Add(0, 100, 50, 10);   // answered before it was received
  comparison.Add(0, 100, 200, 10);  // on its way for less than nothing
  comparison.Add(0, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max(), 10);
  comparison.Add(std::numeric_limits<int64_t>::min(), 0, 0, 10);
  EXPECT_EQ(comparison.count(), 0);
  EXPECT_EQ(comparison.best(), std::nullopt);
}

TEST(ClockTest, DriftBetweenTwoSamplesIsCorrectedEvenly) {
  const ClockLine line({{1000 * kMilli, 500, 7}, {2000 * kMilli, 1500, 9}});
  EXPECT_EQ(line.ToReference(1000 * kMilli), 1000 * kMilli + 500);
  EXPECT_EQ(line.ToReference(1500 * kMilli), 1500 * kMilli + 1000);
  EXPECT_EQ(line.ToReference(2000 * kMilli), 2000 * kMilli + 1500);
  EXPECT_EQ(line.ToReference(0), 500) << "what was not measured is not invented";
  EXPECT_EQ(line.ToReference(9000 * kMilli), 9000 * kMilli + 1500);
  EXPECT_EQ(line.uncertainty(), 9);
}

TEST(ClockTest, OrderOnOneClockStaysWhateverTheDrift) {
  const ClockLine line({{0, 0, 1}, {1'000'000, -900, 1}});
  int64_t last = line.ToReference(-5);
  for (int64_t own = -4; own < 1'000'010; own += 7) {
    const int64_t now = line.ToReference(own);
    ASSERT_GE(now, last) << own;
    last = now;
  }
}

TEST(ClockTest, ProcessesOfOneHostShareItsBestSample) {
  const std::vector<ClockLine> lines = AlignClocks({
      {"here", {{0, 0, 0}, {100, 0, 0}}},       // the reference itself
      {"here", {{0, 30, 40}, {100, -20, 25}}},  // agrees with 0
      {"there", {{0, 5000, 60}, {100, 5010, 9}}},
      {"there", {{0, 5030, 8}, {100, 5040, 70}}},
  });
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1].ToReference(50), 50);
  EXPECT_EQ(lines[1].uncertainty(), 0);
  for (const int i : {2, 3}) {
    EXPECT_EQ(lines[i].ToReference(0), 5030);
    EXPECT_EQ(lines[i].ToReference(100), 5110);
    EXPECT_EQ(lines[i].uncertainty(), 9);
  }
}

// As in containers with time namespaces of their own.
TEST(ClockTest, ASampleThatContradictsItsHostsIsKept) {
  const std::vector<ClockLine> lines =
      AlignClocks({{"here", {{0, 0, 0}}}, {"here", {{0, 3'600'000, 40}}}});
  EXPECT_EQ(lines[1].ToReference(10), 3'600'010);
  EXPECT_EQ(lines[1].uncertainty(), 40);
}

TEST(ClockTest, WhoCouldNotCompareHasItsHostsClockOrNone) {
  const std::vector<ClockLine> lines =
      AlignClocks({{"here", {{0, 70, 3}}}, {"here", {}}, {"there", {}}, {"", {}}});
  EXPECT_TRUE(lines[1].is_known());
  EXPECT_EQ(lines[1].ToReference(0), 70);
  EXPECT_FALSE(lines[2].is_known());
  EXPECT_EQ(lines[2].ToReference(12), 12);
  EXPECT_FALSE(lines[3].is_known());
}

TEST(ClockTest, AbsurdSamplesOverflowNothing) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const std::vector<ClockLine> lines = AlignClocks(
      {{"here", {{0, kMax, 1}, {kMin, 1, 1}}}, {"here", {{0, kMin, kMax}, {1, 1, -1}}}});
  for (const ClockLine& line : lines) EXPECT_EQ(line.ToReference(kMax), kMax);
}

}  // namespace
}  // namespace lockstep::trace
