#include "runtime/base/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace lockstep {
namespace {

TEST(DTypeTest, NamesRoundTripAndAreDistinct) {
  std::set<std::string> names;
  for (int number = 0; number < kDTypeCount; ++number) {
    const StatusOr<DType> dtype = DTypeFromNumber(number);
    ASSERT_TRUE(dtype.ok());
    EXPECT_EQ(static_cast<int>(*dtype), number);
    EXPECT_TRUE(names.emplace(Name(*dtype)).second) << Name(*dtype);
    const StatusOr<DType> parsed = ParseDType(Name(*dtype));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, *dtype);
  }
}

TEST(DTypeTest, ShortNamesParse) {
  EXPECT_EQ(*ParseDType("f32"), DType::kFloat32);
  EXPECT_EQ(*ParseDType("bf16"), DType::kBFloat16);
  EXPECT_EQ(*ParseDType("i64"), DType::kInt64);
  EXPECT_EQ(*ParseDType("u8"), DType::kUInt8);
}

TEST(DTypeTest, UnknownNameListsThoseThatExist) {
  const StatusOr<DType> dtype = ParseDType("float");
  EXPECT_EQ(dtype.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(dtype.status()).find("\"float\""), std::string::npos);
  EXPECT_NE(Message(dtype.status()).find("float8_e5m2"), std::string::npos);
}

TEST(DTypeTest, UnknownNumbersAreInvalid) {
  EXPECT_EQ(DTypeFromNumber(-1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DTypeFromNumber(kDTypeCount).status().code(), StatusCode::kInvalidArgument);
}

TEST(DTypeTest, SizesMatchTheNames) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    const std::string name(Name(dtype));
    const size_t digits = name.find_first_of("0123456789");
    const size_t bits = digits == std::string::npos ? 8 : std::stoul(name.substr(digits));
    EXPECT_EQ(SizeOf(dtype), bits / 8) << name;
  }
}

TEST(DTypeTest, Fp8IsAFloatWithoutArithmetic) {
  EXPECT_TRUE(IsFloat(DType::kFloat8E4M3));
  EXPECT_FALSE(IsArithmetic(DType::kFloat8E5M2));
  EXPECT_TRUE(IsArithmetic(DType::kFloat64));
  EXPECT_FALSE(IsFloat(DType::kUInt64));
}

TEST(DTypeTest, PrintsItsName) {
  std::ostringstream out;
  out << DType::kBFloat16;
  EXPECT_EQ(out.str(), "bfloat16");
}

}  // namespace
}  // namespace lockstep
