#include "runtime/base/float_convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace lockstep {
namespace {

static_assert(ToFloat16(1.0f).bits == 0x3c00, "usable in constant expressions");
static_assert(NarrowTo<Float16>(1e300).bits == 0x7c00);

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(FloatConvertTest, Float16KnownValues) {
  EXPECT_EQ(ToFloat16(0.0f).bits, 0x0000);
  EXPECT_EQ(ToFloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(ToFloat16(-2.0f).bits, 0xc000);
  EXPECT_EQ(ToFloat16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(ToFloat16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(ToFloat16(65520.0f).bits, 0x7c00) << "the tie goes to the even one, infinity";
  EXPECT_EQ(ToFloat16(kInfinity).bits, 0x7c00);
  EXPECT_EQ(ToFloat16(-kInfinity).bits, 0xfc00);
  EXPECT_EQ(ToFloat16(0x1p-24f).bits, 0x0001) << "the smallest subnormal";
  EXPECT_EQ(ToFloat16(0x1p-25f).bits, 0x0000) << "a tie with zero";
  EXPECT_EQ(ToFloat16(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(ToFloat(Float16{0x0001}), 0x1p-24f);
  EXPECT_EQ(ToFloat(Float16{0x03ff}), 0x1.ff8p-15f);
}

TEST(FloatConvertTest, Float8KnownValues) {
  EXPECT_EQ(ToFloat(Float8E4M3{0x7e}), 448.0f);
  EXPECT_EQ(ToFloat(Float8E4M3{0x01}), 0x1p-9f);
  EXPECT_EQ(ToFloat(Float8E5M2{0x7b}), 57344.0f);
  EXPECT_EQ(ToFloat(Float8E5M2{0x01}), 0x1p-16f);
  EXPECT_EQ(ToFloat(Float8E5M2{0x7c}), kInfinity);
  EXPECT_EQ(ToFloat8E4M3(1.0f).bits, 0x38);
  EXPECT_EQ(ToFloat8E4M3(1.0625f).bits, 0x38) << "a tie goes to the even one";
  EXPECT_EQ(ToFloat8E4M3(1.1875f).bits, 0x3a) << "a tie goes to the even one";
}

TEST(FloatConvertTest, Float8Saturates) {
  for (const float value : {449.0f, 465.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(ToFloat8E4M3(value).bits, 0x7e) << value;
    EXPECT_EQ(ToFloat8E4M3(-value).bits, 0xfe) << value;
  }
  for (const float value : {57345.0f, 65536.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(ToFloat8E5M2(value).bits, 0x7b) << value;
    EXPECT_EQ(ToFloat8E5M2(-value).bits, 0xfb) << value;
  }
}

// Exhaustive for all values of a narrow type: what was widened narrows back to the same bits.
template <typename T, typename Bits>
void ExpectWideningRoundTrips() {
  for (uint32_t bits = 0; bits <= std::numeric_limits<Bits>::max(); ++bits) {
    const T narrow{static_cast<Bits>(bits)};
    const float wide = ToFloat(narrow);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(ToFloat(NarrowTo<T>(wide)))) << bits;
    } else if (std::isinf(wide) && sizeof(Bits) == 1) {
      ASSERT_EQ(std::fabs(ToFloat(NarrowTo<T>(wide))), 57344.0f);
    } else {
      ASSERT_EQ(NarrowTo<T>(wide).bits, bits);
      ASSERT_EQ(NarrowTo<T>(static_cast<double>(wide)).bits, bits);
    }
  }
}

TEST(FloatConvertTest, WideningRoundTripsForEveryValue) {
  ExpectWideningRoundTrips<Float16, uint16_t>();
  ExpectWideningRoundTrips<BFloat16, uint16_t>();
  ExpectWideningRoundTrips<Float8E4M3, uint8_t>();
  ExpectWideningRoundTrips<Float8E5M2, uint8_t>();
}

// All non-negative finite values of T, ascending, by their bits.
template <typename T>
std::vector<double> FiniteValues() {
  std::vector<double> values;
  for (uint32_t bits = 0; bits < (sizeof(T) == 1 ? 0x80u : 0x8000u); ++bits) {
    const float value = ToFloat(T{static_cast<decltype(T::bits)>(bits)});
    if (!std::isfinite(value)) break;
    values.push_back(value);
  }
  return values;
}

// Around every midpoint of two neighbours: below goes down, above goes up, the tie to even bits.
// In double, so that the step beside the midpoint is far below a float's precision.
template <typename T>
void ExpectNearestEven() {
  const std::vector<double> values = FiniteValues<T>();
  for (size_t low = 0; low + 1 < values.size(); ++low) {
    const double middle = values[low] + (values[low + 1] - values[low]) / 2;
    const uint32_t even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(NarrowTo<T>(middle).bits, even) << middle;
    ASSERT_EQ(NarrowTo<T>(std::nextafter(middle, 0.0)).bits, low) << middle;
    ASSERT_EQ(NarrowTo<T>(std::nextafter(middle, 1e300)).bits, low + 1) << middle;
    const auto as_float = static_cast<float>(middle);
    if (as_float == middle) {
      ASSERT_EQ(NarrowTo<T>(as_float).bits, even) << middle;
    }
  }
}

TEST(FloatConvertTest, NarrowingRoundsToNearestTiesToEven) {
  ExpectNearestEven<Float16>();
  ExpectNearestEven<BFloat16>();
  ExpectNearestEven<Float8E4M3>();
  ExpectNearestEven<Float8E5M2>();
}

TEST(FloatConvertTest, NanStaysNanWithItsSign) {
  for (const float nan : {kNan, std::bit_cast<float>(0x7f800001u)}) {
    for (const float value : {nan, -nan}) {
      EXPECT_TRUE(std::isnan(ToFloat(ToFloat16(value))));
      EXPECT_TRUE(std::isnan(ToFloat(ToBFloat16(value))));
      EXPECT_TRUE(std::isnan(ToFloat(ToFloat8E4M3(value))));
      EXPECT_TRUE(std::isnan(ToFloat(ToFloat8E5M2(value))));
      EXPECT_EQ(std::signbit(ToFloat(ToFloat16(value))), std::signbit(value));
      EXPECT_EQ(std::signbit(ToFloat(ToFloat8E4M3(value))), std::signbit(value));
    }
  }
  EXPECT_TRUE(std::isnan(ToFloat(NarrowTo<Float16>(std::numeric_limits<double>::quiet_NaN()))));
}

TEST(FloatConvertTest, HugeAndTinyDoublesGoToTheEnds) {
  EXPECT_EQ(NarrowTo<BFloat16>(1e300).bits, 0x7f80);
  EXPECT_EQ(NarrowTo<BFloat16>(-1e300).bits, 0xff80);
  EXPECT_EQ(NarrowTo<BFloat16>(std::numeric_limits<double>::infinity()).bits, 0x7f80);
  EXPECT_EQ(NarrowTo<BFloat16>(1e-300).bits, 0x0000);
  EXPECT_EQ(NarrowTo<BFloat16>(-1e-300).bits, 0x8000);
  EXPECT_EQ(NarrowTo<Float8E4M3>(1e300).bits, 0x7e);
}

#if defined(__x86_64__)
__attribute__((target("f16c"))) uint16_t HardwareFloat16(float value) {
  using Floats = float __attribute__((vector_size(16)));
  const auto half = __builtin_ia32_vcvtps2ph(Floats{value}, 0);
  return static_cast<uint16_t>(half[0]);
}

TEST(FloatConvertTest, Float16AgreesWithTheHardware) {
  // A CPU that has AVX2 has F16C, whose name clang-14 does not know here.
  if (!__builtin_cpu_supports("avx2"))
    GTEST_SKIP() << "this CPU has no AVX2, by which F16C is known";
  // Every 251st float: coprime to 2^32, so that all low bits and all exponents come up.
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 251) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(ToFloat16(value).bits, HardwareFloat16(value)) << std::hex << bits;
  }
}
#endif

}  // namespace
}  // namespace lockstep
