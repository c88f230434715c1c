#include "tools/cli/fragment/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

HostTensor Numbers(const std::vector<double>& numbers) {
  return HostTensor::Of<double>({static_cast<int64_t>(numbers.size())}, numbers);
}

Comparison Compared(const HostTensor& actual, const HostTensor& reference,
                    const Tolerance& tolerance = {}) {
  const StatusOr<Comparison> comparison = Compare(actual, reference, tolerance);
  EXPECT_TRUE(comparison.ok()) << comparison.status();
  return comparison.value_or(Comparison());
}

TEST(FragmentComparisonTest, ElementsMayDifferByBothTolerances) {
  const Tolerance tolerance{.relative = 0.25, .absolute = 0.5};
  EXPECT_TRUE(Compared(Numbers({5.5, 0.5}), Numbers({4, 0}), tolerance).Agrees());
  EXPECT_EQ(Compared(Numbers({5.75, 0.75}), Numbers({4, 0}), tolerance).different, 2);
  // Of the reference, not of the result.
  EXPECT_FALSE(Compared(Numbers({4}), Numbers({2}), {.relative = 0.5, .absolute = 0}).Agrees());
  EXPECT_TRUE(Compared(Numbers({2}), Numbers({4}), {.relative = 0.5, .absolute = 0}).Agrees());
}

TEST(FragmentComparisonTest, TheLargestDifferenceIsToldWithItsPlace) {
  const HostTensor actual = HostTensor::Of<float>({2, 3}, {1, 2, 3, 4, 5.5F, 6});
  const HostTensor reference = HostTensor::Of<double>({2, 3}, {1, 2, 3.25, 4, 5, 6});
  const Comparison comparison = Compared(actual, reference);
  EXPECT_EQ(comparison.elements, 6);
  EXPECT_EQ(comparison.different, 2);
  EXPECT_EQ(comparison.largest, 0.5);
  EXPECT_EQ(comparison.largest_at, 4);
  EXPECT_EQ(Describe(comparison, actual, reference),
            "2 of 6 elements differ; the largest difference is 0.5, at [1, 1]: 5.5, expected 5");
  EXPECT_EQ(
      Describe(Compared(actual, reference, {.relative = 0, .absolute = 0.5}), actual, reference),
      "the largest difference is 0.5, at [1, 1]");
  EXPECT_EQ(Describe(Compared(actual, actual), actual, actual), "all elements are equal");
}

TEST(FragmentComparisonTest, WhatIsNoNumberAgreesWithItselfOnly) {
  EXPECT_TRUE(Compared(Numbers({kNoNumber, kInfinity}), Numbers({kNoNumber, kInfinity})).Agrees());
  EXPECT_EQ(Compared(Numbers({1, kNoNumber}), Numbers({kNoNumber, 1})).different, 2);
  EXPECT_EQ(Compared(Numbers({1, -kInfinity}), Numbers({kInfinity, kInfinity})).different, 2);
  const Comparison comparison = Compared(Numbers({9, kNoNumber, 3}), Numbers({1, 2, 3}));
  EXPECT_TRUE(std::isnan(comparison.largest));
  EXPECT_EQ(comparison.largest_at, 1);
}

TEST(FragmentComparisonTest, IntegersAreComparedExactly) {
  constexpr int64_t kLarge = int64_t{1} << 60;
  const HostTensor actual = HostTensor::Of<int64_t>({1}, {kLarge + 1});
  const HostTensor reference = HostTensor::Of<int64_t>({1}, {kLarge});
  EXPECT_EQ(Compared(actual, reference, {.relative = 0, .absolute = 0}).largest, 1);
  EXPECT_FALSE(Compared(actual, reference, {.relative = 0, .absolute = 0}).Agrees());
}

TEST(FragmentComparisonTest, OtherShapesAreAnError) {
  EXPECT_THAT(Message(Compare(Numbers({1, 2}), Numbers({1}), {}).status()),
              HasSubstr("its shape is [2], and the reference's is [1]"));
}

}  // namespace
}  // namespace lockstep::cli
