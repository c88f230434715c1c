// The numbers begin, begin + step, begin + 2 step, ...
#pragma once

#include <cstdint>

#include "runtime/tensor/element.h"

namespace lockstep::tensor {

// Integers modulo 2^64 if `exact`, else doubles.
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

}  // namespace lockstep::tensor
