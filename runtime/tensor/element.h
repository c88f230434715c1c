// Elements as C++ types: from a DType to its type, and from one type to another, one by one and in
// whole buffers.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "runtime/base/dtype.h"
#include "runtime/base/float_convert.h"

namespace lockstep::tensor {

// A bool as it lies in a tensor. Any byte but 0 reads as true, which C++'s own bool does not allow.
struct Bool8 {
  uint8_t byte = 0;
};

// Calls `visitor(std::type_identity<T>())` with the element type of `dtype` and returns its result.
template <typename Visitor>
constexpr decltype(auto) VisitDType(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::kBool:
      return visitor(std::type_identity<Bool8>());
    case DType::kInt8:
      return visitor(std::type_identity<int8_t>());
    case DType::kUInt8:
      return visitor(std::type_identity<uint8_t>());
    case DType::kInt16:
      return visitor(std::type_identity<int16_t>());
    case DType::kUInt16:
      return visitor(std::type_identity<uint16_t>());
    case DType::kInt32:
      return visitor(std::type_identity<int32_t>());
    case DType::kUInt32:
      return visitor(std::type_identity<uint32_t>());
    case DType::kInt64:
      return visitor(std::type_identity<int64_t>());
    case DType::kUInt64:
      return visitor(std::type_identity<uint64_t>());
    case DType::kFloat16:
      return visitor(std::type_identity<Float16>());
    case DType::kBFloat16:
      return visitor(std::type_identity<BFloat16>());
    case DType::kFloat32:
      return visitor(std::type_identity<float>());
    case DType::kFloat64:
      return visitor(std::type_identity<double>());
    case DType::kFloat8E4M3:
      return visitor(std::type_identity<Float8E4M3>());
    case DType::kFloat8E5M2:
      return visitor(std::type_identity<Float8E5M2>());
  }
  __builtin_unreachable();  // a DType is always one of these
}

namespace internal {

// `value` as a double that rounds to narrow floats as `value` itself does: bits that a double
// cannot hold are folded into its last one.
template <std::integral T>
constexpr double ToOddDouble(T value) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<double>(value);
  } else {
    constexpr uint64_t kTail = (uint64_t{1} << 11) - 1;
    const bool negative = value < 0;
    uint64_t magnitude = negative ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    if (magnitude >> 53 != 0 && (magnitude & kTail) != 0) {
      magnitude = (magnitude & ~kTail) | (kTail + 1);
    }
    const auto result = static_cast<double>(magnitude);
    return negative ? -result : result;
  }
}

// Cuts the fraction off; what lies outside T's range becomes its nearest end, and NaN 0.
template <std::integral To, std::floating_point From>
constexpr To Saturate(From value) {
  // 2^digits is a power of two, so a float holds it exactly, unlike the largest To.
  constexpr From kEnd = static_cast<From>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
  if (value != value) return 0;
  if (value >= kEnd) return std::numeric_limits<To>::max();
  if constexpr (std::is_signed_v<To>) {
    if (value < -kEnd) return std::numeric_limits<To>::min();
  } else {
    if (value <= 0) return 0;
  }
  return static_cast<To>(value);
}

}  // namespace internal

// Converts one element.
//   to bool       anything but 0 is true, NaN too
//   from bool     0 or 1
//   int to int    modulo 2^bits, as C++ and NumPy do
//   float to int  towards zero; saturates; NaN becomes 0
//   to a float    to nearest, ties to even; see float_convert.h for what is too large
template <typename To, typename From>
constexpr To ConvertElement(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, Bool8>) {
    return ConvertElement<To>(uint8_t{value.byte != 0});
  } else if constexpr (kIsNarrowFloat<From>) {
    return ConvertElement<To>(ToFloat(value));
  } else if constexpr (std::is_same_v<To, Bool8>) {
    return Bool8{uint8_t{value != 0}};
  } else if constexpr (kIsNarrowFloat<To> && std::is_integral_v<From>) {
    return NarrowTo<To>(internal::ToOddDouble(value));
  } else if constexpr (kIsNarrowFloat<To>) {
    return NarrowTo<To>(value);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return internal::Saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

// The numbers begin, begin + step, begin + 2 step, ...: integers modulo 2^64 if `exact`, else
// doubles.
struct Steps {
  bool exact = true;
  uint64_t int_begin = 0;
  uint64_t int_step = 0;
  double float_begin = 0;
  double float_step = 0;

  // The one of number `i`, by the rules of ConvertElement().
  template <typename T>
  constexpr T At(uint64_t i) const {
    if (exact) return ConvertElement<T>(static_cast<int64_t>(int_begin + i * int_step));
    return ConvertElement<T>(float_begin + static_cast<double>(i) * float_step);
  }
};

// Converts every element of `from` into `to` by the rules of ConvertElement().
// `to.count` elements are written; `from` has as many. The memory does not overlap.
void CastElements(ConstBuffer from, Buffer to);

}  // namespace lockstep::tensor
