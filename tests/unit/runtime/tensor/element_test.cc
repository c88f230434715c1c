#include "runtime/tensor/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep::tensor {
namespace {

TEST(ElementTest, VisitGivesTheTypeOfEachDType) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    VisitDType(dtype, [&]<typename T>(std::type_identity<T>) {
      EXPECT_EQ(sizeof(T), SizeOf(dtype)) << dtype;
      if constexpr (std::is_same_v<T, Bool8>) {
        EXPECT_EQ(dtype, DType::kBool);
      } else {
        EXPECT_EQ(DTypeOf<T>::value, dtype);
      }
    });
  }
}

TEST(ElementTest, FloatsAreCutAndSaturatedToIntegers) {
  EXPECT_EQ(ConvertElement<int32_t>(2.9f), 2);
  EXPECT_EQ(ConvertElement<int32_t>(-2.9), -2);
  EXPECT_EQ(ConvertElement<int8_t>(127.9f), 127);
  EXPECT_EQ(ConvertElement<int8_t>(128.0f), 127);
  EXPECT_EQ(ConvertElement<int8_t>(-128.9f), -128);
  EXPECT_EQ(ConvertElement<int8_t>(-1e30f), -128);
  EXPECT_EQ(ConvertElement<uint8_t>(-1.0f), 0);
  EXPECT_EQ(ConvertElement<uint8_t>(256.0f), 255);
  EXPECT_EQ(ConvertElement<int64_t>(1e300), INT64_MAX);
  EXPECT_EQ(ConvertElement<int64_t>(-1e300), INT64_MIN);
  EXPECT_EQ(ConvertElement<int64_t>(0x1p63f), INT64_MAX);
  EXPECT_EQ(ConvertElement<uint64_t>(0x1p64f), UINT64_MAX);
  EXPECT_EQ(ConvertElement<uint64_t>(0x1p63f), uint64_t{1} << 63);
  EXPECT_EQ(ConvertElement<int32_t>(std::numeric_limits<float>::quiet_NaN()), 0);
  EXPECT_EQ(ConvertElement<int32_t>(std::numeric_limits<double>::infinity()), INT32_MAX);
}

TEST(ElementTest, IntegersWrap) {
  EXPECT_EQ(ConvertElement<int8_t>(int32_t{300}), 44);
  EXPECT_EQ(ConvertElement<uint8_t>(int32_t{-1}), 255);
  EXPECT_EQ(ConvertElement<int32_t>(uint64_t{1} << 40), 0);
}

TEST(ElementTest, BoolsAreZeroOrOne) {
  EXPECT_EQ(ConvertElement<Bool8>(int32_t{256}).byte, 1);
  EXPECT_EQ(ConvertElement<Bool8>(0.5f).byte, 1);
  EXPECT_EQ(ConvertElement<Bool8>(-0.0f).byte, 0);
  EXPECT_EQ(ConvertElement<Bool8>(std::numeric_limits<float>::quiet_NaN()).byte, 1);
  EXPECT_EQ(ConvertElement<int32_t>(Bool8{1}), 1);
  EXPECT_EQ(ConvertElement<int32_t>(Bool8{0xbe}), 1) << "any byte but 0 is true";
  EXPECT_EQ(ToFloat(ConvertElement<Float16>(Bool8{1})), 1.0f);
}

TEST(ElementTest, NarrowFloatsConvertThroughFloat) {
  EXPECT_EQ(ConvertElement<int32_t>(ToFloat16(-3.5f)), -3);
  EXPECT_EQ(ConvertElement<double>(ToBFloat16(1.5f)), 1.5);
  EXPECT_EQ(ConvertElement<BFloat16>(ToFloat16(2.0f)).bits, ToBFloat16(2.0f).bits);
  EXPECT_EQ(ConvertElement<Float8E4M3>(int32_t{1000}).bits, 0x7e);
}

// 2^62 + 2^54 lies halfway between two bfloat16; the last bit decides, and a double cannot hold it.
TEST(ElementTest, WideIntegersRoundOnce) {
  const int64_t tie = (int64_t{1} << 62) + (int64_t{1} << 54);
  EXPECT_EQ(ConvertElement<BFloat16>(tie).bits, ToBFloat16(0x1p62f).bits);
  EXPECT_EQ(ConvertElement<BFloat16>(tie + 1).bits, ToBFloat16(0x1.02p62f).bits);
  EXPECT_EQ(ConvertElement<BFloat16>(tie - 1).bits, ToBFloat16(0x1p62f).bits);
  EXPECT_EQ(ConvertElement<BFloat16>(-tie - 1).bits, ToBFloat16(-0x1.02p62f).bits);
  EXPECT_EQ(ToFloat(ConvertElement<BFloat16>(INT64_MIN)), -0x1p63f);
  EXPECT_EQ(ToFloat(ConvertElement<BFloat16>(UINT64_MAX)), 0x1p64f);
}

}  // namespace
}  // namespace lockstep::tensor
