#include "tools/cli/program/compare.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::cli::program {
namespace {

HostTensor Floats(Shape shape, const std::vector<float>& elements) {
  return HostTensor::Of<float>(std::move(shape), elements);
}

NumberArray Numbers(Shape shape, std::vector<Number> numbers) {
  return {std::move(shape), std::move(numbers)};
}

std::string Compare(const ExpectedValue& expected, const Value& actual, double tolerance = 0) {
  ExpectStep expect;
  expect.tolerance = tolerance;
  return Difference(expect, expected, actual).value_or("");
}

TEST(DifferenceTest, OneNumberStandsForAllElements) {
  const NumberArray six = Numbers({}, {int64_t{6}});
  EXPECT_EQ(Compare(six, Floats({2, 2}, {6, 6, 6, 6})), "");
  EXPECT_EQ(Compare(six, Floats({2, 2}, {6, 6, 5, 7})),
            "element [1, 0] is 5, expected 6 (2 of 4 elements differ)");
  EXPECT_EQ(Compare(six, Value(6)), "");
  EXPECT_EQ(Compare(six, Value(7)), "it is 7, expected 6");
  EXPECT_EQ(Compare(six, Value("x")), "it is \"x\", expected a number");
}

TEST(DifferenceTest, LargeUnsignedNumbersAreNotRounded) {
  const std::vector<uint64_t> elements = {std::numeric_limits<uint64_t>::max()};
  const HostTensor most = HostTensor::Of<uint64_t>({1}, elements);
  EXPECT_EQ(Compare(Numbers({}, {elements[0]}), most), "");
  EXPECT_EQ(Compare(Numbers({}, {elements[0] - 1}), most),
            "element [0] is 18446744073709551615, expected 18446744073709551614");
}

TEST(DifferenceTest, ListsGiveShapeAndElements) {
  const NumberArray row = Numbers({2}, {int64_t{1}, 2.5});
  EXPECT_EQ(Compare(row, Floats({2}, {1, 2.5})), "");
  EXPECT_EQ(Compare(row, Floats({2, 1}, {1, 2.5})), "the shape is [2, 1], expected [2]");
  EXPECT_EQ(Compare(row, Value(Value::List{Value(1), Value(2.5)})), "");
  EXPECT_EQ(Compare(Numbers({2}, {int64_t{2}, int64_t{3}}), Value(Shape{2, 3})), "");
  EXPECT_EQ(Compare(Numbers({2}, {int64_t{2}, int64_t{3}}), Value(Shape{2, 4})),
            "it is [2, 4], expected [2, 3]");
}

TEST(DifferenceTest, ToleranceIsRelativeAboveOneAndAbsoluteBelow) {
  EXPECT_EQ(Compare(Numbers({}, {1000.0}), Value(1000.9), 1e-3), "");
  EXPECT_NE(Compare(Numbers({}, {1000.0}), Value(1001.1), 1e-3), "");
  EXPECT_EQ(Compare(Numbers({}, {0.0}), Value(0.0009), 1e-3), "");
  EXPECT_NE(Compare(Numbers({}, {0.0}), Value(0.0011), 1e-3), "");
}

TEST(DifferenceTest, LargeIntegersAreComparedExactly) {
  const int64_t large = (int64_t{1} << 60) + 1;
  EXPECT_EQ(Compare(Numbers({}, {large}), Value(large)), "");
  EXPECT_NE(Compare(Numbers({}, {large}), Value(large - 1)), "");
}

TEST(DifferenceTest, NanEqualsNanAndNothingElse) {
  EXPECT_EQ(Compare(Numbers({}, {std::nan("")}), Value(std::nan(""))), "");
  EXPECT_NE(Compare(Numbers({}, {std::nan("")}), Value(1.0), 100), "");
  EXPECT_NE(Compare(Numbers({}, {1.0}), Value(std::nan("")), 100), "");
}

TEST(DifferenceTest, ValuesOfOtherTypes) {
  EXPECT_EQ(Compare(Value("a"), Value("a")), "");
  EXPECT_EQ(Compare(Value("a"), Value(None{})), "it is none, expected \"a\"");
  EXPECT_EQ(Compare(Value(DType::kInt8), Value(DType::kInt8)), "");
  EXPECT_EQ(Compare(Value(Floats({1}, {1})), Value(Floats({1}, {1.25})), 0.5), "");
  EXPECT_EQ(Compare(Value(HostTensor{DType::kInt8, {1}, "x"}), Value(Floats({1}, {1}))),
            "the dtype is float32, expected int8");
}

TEST(DifferenceTest, ShapeAndDType) {
  ExpectStep expect;
  expect.shape = Shape{2};
  expect.dtype = DType::kFloat32;
  EXPECT_EQ(Difference(expect, std::nullopt, Floats({2}, {1, 2})), std::nullopt);
  EXPECT_EQ(Difference(expect, std::nullopt, Floats({1}, {1})), "the shape is [1], expected [2]");
  EXPECT_EQ(Difference(expect, std::nullopt, Value(3)), "it is 3, expected a tensor");
  expect.dtype = DType::kInt8;
  EXPECT_EQ(Difference(expect, std::nullopt, Floats({2}, {1, 2})),
            "the dtype is float32, expected int8");
}

}  // namespace
}  // namespace lockstep::cli::program
