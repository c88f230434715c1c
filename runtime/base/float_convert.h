// Narrow floating-point numbers, and their conversions from and to float and double.
//
// Widening is exact. Narrowing rounds to nearest, ties to even, gradual underflow included, from
// double as well as from float (no double rounding). Beyond the largest finite number
//   Float16, BFloat16          become an infinity, as IEEE 754 and the hardware do;
//   Float8E4M3, Float8E5M2     saturate: the largest finite number (448, 57344) with the sign, also
//                              for infinities, because E4M3 has none.
// A NaN stays a NaN (quiet, its sign and upper payload bits kept; fp8 keeps the sign only).
//
// Everything is constexpr and branches little; loops over it are left to the compiler. Kernels that
// use hardware instructions (F16C, AVX-512-BF16) get the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "runtime/base/dtype.h"

namespace lockstep {

// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa.
struct Float16 {
  uint16_t bits = 0;
};
// The upper half of a float: 8 bits of exponent, 7 of mantissa.
struct BFloat16 {
  uint16_t bits = 0;
};
// OCP FP8 E4M3: no infinities, NaN is S.1111.111.
struct Float8E4M3 {
  uint8_t bits = 0;
};
// OCP FP8 E5M2: a Float16 cut to 8 bits.
struct Float8E5M2 {
  uint8_t bits = 0;
};

namespace float_bits {

inline constexpr uint32_t kFloatInfinity = 0x7f800000;
inline constexpr uint32_t kFloatQuietBit = 0x00400000;

// Rounds a finite, non-negative float, given by its bits, to `kExponentBits` and `kMantissaBits`.
// The result may lie past the largest finite number of the format: callers clamp it.
template <int kExponentBits, int kMantissaBits>
constexpr uint32_t RoundMagnitude(uint32_t magnitude) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr int kDropped = 23 - kMantissaBits;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(127 - kBias + 1) << 23;
  if (magnitude >= kSmallestNormal) {
    const uint32_t rebased = magnitude - (static_cast<uint32_t>(127 - kBias) << 23);
    const uint32_t odd = rebased >> kDropped & 1;
    return (rebased + (uint32_t{1} << (kDropped - 1)) - 1 + odd) >> kDropped;
  }
  // Subnormal: the mantissa, its leading bit now explicit, moves right until the exponents agree.
  const int missing = static_cast<int>((kSmallestNormal - (magnitude & kFloatInfinity)) >> 23);
  const int shift = kDropped + missing;
  if (shift > 24) return 0;
  const uint32_t mantissa = (magnitude & 0x007fffff) | 0x00800000;
  const uint32_t odd = mantissa >> shift & 1;
  return (mantissa + (uint32_t{1} << (shift - 1)) - 1 + odd) >> shift;
}

// Widens finite `magnitude` (sign bit cleared) of such a format.
template <int kExponentBits, int kMantissaBits>
constexpr float WidenMagnitude(uint32_t magnitude) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  if (magnitude >> kMantissaBits == 0) {  // subnormal: a multiple of the smallest one
    constexpr float kUnit =
        std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - kMantissaBits) << 23);
    return static_cast<float>(magnitude) * kUnit;
  }
  return std::bit_cast<float>((magnitude << (23 - kMantissaBits)) +
                              (static_cast<uint32_t>(127 - kBias) << 23));
}

constexpr float WithSign(float magnitude, bool negative) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | uint32_t{negative} << 31);
}

// `value` as a float rounded to odd: if it is inexact, the neighbour with an odd mantissa. Rounding
// that to a format of at most 22 bits gives the same as rounding `value` itself (Boldo, Melquiond:
// "Emulation of FMA and correctly rounded sums", IEEE ToC 2008).
constexpr float RoundToOdd(double value) {
  if (value != value) return static_cast<float>(value);
  // Casting a double past the range of float is not a constant expression; clamp it first.
  constexpr double kFloatMax = 3.4028234663852886e38;
  const double magnitude = value < 0 ? -value : value;
  if (magnitude > kFloatMax) {
    const uint32_t bits = magnitude > 1.7976931348623157e308 ? kFloatInfinity : 0x7f7fffff;
    return WithSign(std::bit_cast<float>(bits), value < 0);
  }
  const float nearest = static_cast<float>(value);
  const double back = nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (back == value || (bits & 1) != 0) return nearest;
  const bool too_small = (back < 0 ? -back : back) < magnitude;
  return std::bit_cast<float>(too_small ? bits + 1 : bits - 1);
}

}  // namespace float_bits

constexpr float ToFloat(Float16 value) {
  const uint32_t magnitude = value.bits & 0x7fff;
  const bool negative = (value.bits & 0x8000) != 0;
  if (magnitude < 0x7c00) {
    return float_bits::WithSign(float_bits::WidenMagnitude<5, 10>(magnitude), negative);
  }
  const uint32_t quiet = magnitude > 0x7c00 ? float_bits::kFloatQuietBit : 0;
  return float_bits::WithSign(
      std::bit_cast<float>(float_bits::kFloatInfinity | (magnitude & 0x3ff) << 13 | quiet),
      negative);
}

constexpr float ToFloat(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

constexpr float ToFloat(Float8E4M3 value) {
  const uint32_t magnitude = value.bits & 0x7f;
  const bool negative = (value.bits & 0x80) != 0;
  if (magnitude == 0x7f) {
    return float_bits::WithSign(
        std::bit_cast<float>(float_bits::kFloatInfinity | float_bits::kFloatQuietBit), negative);
  }
  return float_bits::WithSign(float_bits::WidenMagnitude<4, 3>(magnitude), negative);
}

constexpr float ToFloat(Float8E5M2 value) {
  return ToFloat(Float16{static_cast<uint16_t>(value.bits << 8)});
}

constexpr Float16 ToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (magnitude > float_bits::kFloatInfinity) {
    return {static_cast<uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x1ff))};
  }
  // 2^16 and above round to infinity anyhow; below it the exponent cannot wrap.
  const uint32_t rounded =
      magnitude >= 0x47800000 ? 0x7c00 : float_bits::RoundMagnitude<5, 10>(magnitude);
  return {static_cast<uint16_t>(sign | rounded)};
}

constexpr BFloat16 ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > float_bits::kFloatInfinity) {
    return {static_cast<uint16_t>((bits | float_bits::kFloatQuietBit) >> 16)};
  }
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

constexpr Float8E4M3 ToFloat8E4M3(float value) {
  constexpr uint32_t kNan = 0x7f;
  constexpr uint32_t kLargest = 0x7e;  // 448
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t narrow = kLargest;
  if (magnitude > float_bits::kFloatInfinity) {
    narrow = kNan;
  } else if (magnitude < 0x43e00000) {  // 448
    narrow = float_bits::RoundMagnitude<4, 3>(magnitude);
  }
  return {static_cast<uint8_t>((bits >> 24 & 0x80) | narrow)};
}

constexpr Float8E5M2 ToFloat8E5M2(float value) {
  constexpr uint32_t kNan = 0x7e;
  constexpr uint32_t kLargest = 0x7b;  // 57344
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t narrow = kLargest;
  if (magnitude > float_bits::kFloatInfinity) {
    narrow = kNan;
  } else if (magnitude < 0x47600000) {  // 57344
    narrow = float_bits::RoundMagnitude<5, 2>(magnitude);
  }
  return {static_cast<uint8_t>((bits >> 24 & 0x80) | narrow)};
}

// The same by target type, for templates. `T` is one of the four.
template <typename T>
constexpr T NarrowTo(float value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return ToFloat16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(value);
  } else if constexpr (std::is_same_v<T, Float8E4M3>) {
    return ToFloat8E4M3(value);
  } else {
    static_assert(std::is_same_v<T, Float8E5M2>);
    return ToFloat8E5M2(value);
  }
}
template <typename T>
constexpr T NarrowTo(double value) {
  return NarrowTo<T>(float_bits::RoundToOdd(value));
}

template <typename T>
inline constexpr bool kIsNarrowFloat =
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float8E4M3> ||
    std::is_same_v<T, Float8E5M2>;

template <>
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kFloat16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBFloat16;
};
template <>
struct DTypeOf<Float8E4M3> {
  static constexpr DType value = DType::kFloat8E4M3;
};
template <>
struct DTypeOf<Float8E5M2> {
  static constexpr DType value = DType::kFloat8E5M2;
};

}  // namespace lockstep
