#include "tools/cli/tensor_text.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace lockstep::cli {
namespace {

Number Parsed(const char* text) {
  const auto number = ParseNumber(text);
  EXPECT_TRUE(number.ok()) << number.status();
  EXPECT_TRUE(number->has_value()) << text;
  return **number;
}

TEST(ParseNumberTest, TypeFollowsFromTheWriting) {
  EXPECT_EQ(Parsed("true"), Number(true));
  EXPECT_EQ(Parsed("-7"), Number(int64_t{-7}));
  EXPECT_EQ(Parsed("+7"), Number(int64_t{7}));
  EXPECT_EQ(Parsed("0x1F"), Number(int64_t{31}));
  EXPECT_EQ(Parsed("7.0"), Number(7.0));
  EXPECT_EQ(Parsed("-2e-3"), Number(-2e-3));
  EXPECT_EQ(Parsed("-inf"), Number(-std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(std::isnan(std::get<double>(Parsed("nan"))));
}

TEST(ParseNumberTest, Int64LimitsAreExact) {
  EXPECT_EQ(Parsed("9223372036854775807"), Number(std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(Parsed("-9223372036854775808"), Number(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(Parsed("9223372036854775808"), Number(uint64_t{1} << 63));
  EXPECT_EQ(Parsed("0xffffffffffffffff"), Number(std::numeric_limits<uint64_t>::max()));
  EXPECT_EQ(ParseNumber("18446744073709551616").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(ParseNumber("-9223372036854775809").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(ParseNumber("99999999999999999999999").status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(ParseNumber("1e999").status().code(), StatusCode::kOutOfRange);
}

TEST(ParseNumberTest, OtherTextIsNoNumber) {
  for (const char* text : {"", "-", "--1", "+-1", "1x", "0x", "0xg", "True", "1.5.2", "e5", "$x"}) {
    const auto number = ParseNumber(text);
    ASSERT_TRUE(number.ok()) << text;
    EXPECT_FALSE(number->has_value()) << text;
  }
}

TEST(NumberToStringTest, IsShortAndExact) {
  EXPECT_EQ(ToString(Number(0.1)), "0.1");
  EXPECT_EQ(ToString(Number(static_cast<double>(0.1f))), "0.1");
  EXPECT_EQ(ToString(Number(100000.0)), "100000");
  EXPECT_EQ(ToString(Number(1.0 / 3)), "0.3333333333333333");
  EXPECT_EQ(ToString(Number(static_cast<double>(1.0f / 3))), "0.33333334");
  EXPECT_EQ(ToString(Number(true)), "true");
  EXPECT_EQ(ToString(Number(std::nan(""))), "nan");
}

TEST(MakeTensorTest, ElementsComeBack) {
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    const auto tensor =
        MakeTensor(static_cast<DType>(dtype), {Shape{2}, {Number(int64_t{1}), Number(int64_t{0})}});
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(ToDouble(ElementAt(*tensor, 0)), 1.0) << tensor->dtype;
    EXPECT_EQ(ToDouble(ElementAt(*tensor, 1)), 0.0) << tensor->dtype;
  }
}

TEST(MakeTensorTest, NarrowFloatsAreRounded) {
  const auto tensor = MakeTensor(DType::kBFloat16, {Shape{}, {Number(1.001)}});
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(ElementAt(*tensor, 0), Number(1.0));
}

TEST(MakeTensorTest, NumbersThatTheDTypeCannotHoldAreRefused) {
  const auto refused = [](DType dtype, Number number) {
    const auto tensor = MakeTensor(dtype, {Shape{1}, {number}});
    return !tensor.ok() && tensor.status().code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(DType::kInt8, int64_t{128}));
  EXPECT_FALSE(refused(DType::kInt8, int64_t{-128}));
  EXPECT_TRUE(refused(DType::kUInt8, int64_t{-1}));
  EXPECT_TRUE(refused(DType::kUInt64, int64_t{-1}));
  EXPECT_TRUE(refused(DType::kInt32, 1.5));
  EXPECT_FALSE(refused(DType::kInt32, 2.0));
  EXPECT_TRUE(refused(DType::kInt64, 1e300));
  EXPECT_TRUE(refused(DType::kInt64, uint64_t{1} << 63));
  EXPECT_TRUE(refused(DType::kUInt32, uint64_t{1} << 63));
  EXPECT_FALSE(refused(DType::kUInt64, uint64_t{1} << 63));
  EXPECT_TRUE(refused(DType::kInt64, std::nan("")));
  EXPECT_TRUE(refused(DType::kBool, int64_t{2}));
}

TEST(MakeTensorTest, CountMustMatchShape) {
  const auto tensor = MakeTensor(DType::kInt8, {Shape{2, 2}, {Number(int64_t{1})}});
  EXPECT_EQ(Message(tensor.status()),
            "a tensor of shape [2, 2] has 4 elements, but there are 1 numbers");
}

TEST(ElementAtTest, LargeUnsignedNumbersAreExact) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const HostTensor tensor = HostTensor::Of<uint64_t>(Shape{1}, absl::MakeConstSpan(&most, 1));
  EXPECT_EQ(ElementAt(tensor, 0), Number(most));
  EXPECT_EQ(ToString(ElementAt(tensor, 0)), "18446744073709551615");
  const auto back = MakeTensor(DType::kUInt64, {Shape{1}, {Number(most)}});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, tensor);
}

TEST(CoordinatesTest, AreRowMajor) {
  EXPECT_EQ(Coordinates(Shape{2, 3}, 4), "[1, 1]");
  EXPECT_EQ(Coordinates(Shape{5}, 4), "[4]");
  EXPECT_EQ(Coordinates(Shape{}, 0), "");
}

}  // namespace
}  // namespace lockstep::cli
