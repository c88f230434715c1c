// What a reduction is, one element at a time and in plain C++: what every kernel has to give.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "runtime/collective/communicator.h"
#include "runtime/tensor/element.h"

namespace lockstep::collective::kernels {

using tensor::Bool8;

// The smaller one; NaN if either is, and -0 is less than +0.
template <std::floating_point T>
T SmallerOf(T a, T b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <std::integral T>
T SmallerOf(T a, T b) {
  return a < b ? a : b;
}

template <std::floating_point T>
T LargerOf(T a, T b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
template <std::integral T>
T LargerOf(T a, T b) {
  return a > b ? a : b;
}

// `a` op `b`, in the type that is computed in; for an average, the sum. Integers wrap.
template <typename T>
T Fold(ReduceOp op, T a, T b) {
  if (op == ReduceOp::kMin) return SmallerOf(a, b);
  if (op == ReduceOp::kMax) return LargerOf(a, b);
  if constexpr (std::is_integral_v<T>) {
    // Products of narrow unsigned numbers would be promoted to int, and overflow.
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    return static_cast<T>(op == ReduceOp::kProd ? x * y : x + y);
  } else {
    return op == ReduceOp::kProd ? a * b : a + b;
  }
}

template <typename T>
T FoldAll(ReduceOp op, std::span<const T> inputs) {
  T result = inputs[0];
  for (const T input : inputs.subspan(1)) result = Fold(op, result, input);
  return result;
}

// Numbers that are computed with as they are.
template <typename T>
requires std::is_arithmetic_v<T> T Reference(ReduceOp op, std::span<const T> inputs) {
  const auto ranks = static_cast<int64_t>(inputs.size());
  if (op != ReduceOp::kAvg) return FoldAll(op, inputs);
  if constexpr (std::is_integral_v<T> && sizeof(T) < 8) {
    int64_t sum = 0;
    for (const T input : inputs) sum += input;
    return static_cast<T>(sum / ranks);
  } else {
    return static_cast<T>(FoldAll(op, inputs) / static_cast<T>(ranks));
  }
}

// Computed as float32, and rounded once.
template <typename T>
requires kIsNarrowFloat<T> T Reference(ReduceOp op, std::span<const T> inputs) {
  float result = ToFloat(inputs[0]);
  for (const T input : inputs.subspan(1)) result = Fold(op, result, ToFloat(input));
  if (op == ReduceOp::kAvg) result /= static_cast<float>(inputs.size());
  return NarrowTo<T>(result);
}

// Any byte but 0 is true.
template <std::same_as<Bool8> T>
T Reference(ReduceOp op, std::span<const T> inputs) {
  const bool any = op == ReduceOp::kSum || op == ReduceOp::kMax;
  for (const T input : inputs) {
    if ((input.byte != 0) == any) return T{any};
  }
  return T{!any};
}

}  // namespace lockstep::collective::kernels
