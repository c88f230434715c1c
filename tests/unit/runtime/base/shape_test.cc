#include "runtime/base/shape.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

TEST(ShapeTest, ScalarHasOneElement) {
  const Shape scalar;
  EXPECT_EQ(scalar.ndim(), 0);
  EXPECT_EQ(scalar.NumElements(), 1);
  EXPECT_EQ(scalar.RowElements(), 1);
  EXPECT_EQ(scalar.ToString(), "[]");
  EXPECT_TRUE(scalar.Validate(8).ok());
}

TEST(ShapeTest, CountsElementsAndRows) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.NumElements(), 30);
  EXPECT_EQ(shape.RowElements(), 15);
  EXPECT_EQ(shape.ToString(), "[2, 3, 5]");
  EXPECT_EQ((Shape{2, 0, 5}).NumElements(), 0);
}

TEST(ShapeTest, CopiesAreIndependent) {
  for (const Shape& original : {Shape{1, 2}, Shape{1, 2, 3, 4, 5, 6}}) {
    Shape copy = original;
    EXPECT_EQ(copy, original);
    copy[0] = 9;
    EXPECT_EQ(original[0], 1);
    Shape assigned{7};
    assigned = original;
    EXPECT_EQ(assigned, original);
  }
}

TEST(ShapeTest, NegativeExtentsAreInvalid) {
  const Status status = Shape({2, -1}).Validate();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(status).find("[2, -1]"), std::string::npos);
}

TEST(ShapeTest, TooManyDimensionsAreInvalid) {
  EXPECT_TRUE(Shape(std::vector<int64_t>(Shape::kMaxDims, 1)).Validate().ok());
  EXPECT_EQ(Shape(std::vector<int64_t>(Shape::kMaxDims + 1, 1)).Validate().code(),
            StatusCode::kInvalidArgument);
}

TEST(ShapeTest, BytesFitInto62Bits) {
  constexpr int64_t kMaxBytes = int64_t{1} << 62;
  EXPECT_TRUE(Shape({kMaxBytes}).Validate(1).ok());
  EXPECT_FALSE(Shape({kMaxBytes + 1}).Validate(1).ok());
  EXPECT_FALSE(Shape({kMaxBytes / 4}).Validate(8).ok());
  EXPECT_FALSE(Shape({INT64_MAX, INT64_MAX}).Validate(1).ok());
}

// The strides of such a tensor, and products on the way to 0, would overflow.
TEST(ShapeTest, HugeExtentsAreInvalidEvenIfTheTensorIsEmpty) {
  EXPECT_FALSE(Shape({INT64_MAX, INT64_MAX, 0}).Validate().ok());
  EXPECT_FALSE(Shape({0, INT64_MAX, INT64_MAX}).Validate().ok());
  EXPECT_TRUE(Shape({0, 1000, 0}).Validate(8).ok());
}

TEST(EvenPartTest, PartsAreContiguousEvenAndComplete) {
  for (const int64_t count : {0, 1, 6, 7, 100}) {
    for (const int parts : {1, 2, 3, 4, 7}) {
      int64_t begin = 0;
      for (int index = 0; index < parts; ++index) {
        const Part part = EvenPart(count, parts, index);
        EXPECT_EQ(part.begin, begin);
        EXPECT_GE(part.count, count / parts);
        EXPECT_LE(part.count, count / parts + 1);
        begin += part.count;
      }
      EXPECT_EQ(begin, count);
    }
  }
}

TEST(EvenPartTest, TheFirstPartsGetTheRest) {
  EXPECT_EQ(EvenPart(7, 3, 0).count, 3);
  EXPECT_EQ(EvenPart(7, 3, 1).count, 2);
  EXPECT_EQ(EvenPart(7, 3, 2).begin, 5);
}

}  // namespace
}  // namespace lockstep
