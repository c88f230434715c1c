// Tensors written by people: numbers, and dense tensors made of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/control/value.h"

namespace lockstep::cli {

// "true", "-3", "0x10", "1.5", "2e-3", "inf", "nan". An integer is a uint64_t only if it is beyond
// int64_t: equal integers are equal alternatives.
using Number = std::variant<bool, int64_t, uint64_t, double>;

// Nothing if `text` is no number. kOutOfRange: an integer beyond 64 bits.
StatusOr<std::optional<Number>> ParseNumber(std::string_view text);

double ToDouble(const Number& number);
// With as few digits as give the same number back; of a number that a float holds, the same float.
std::string ToString(const Number& number);

// Numbers in row-major order. A rank-0 shape is a single number.
struct NumberArray {
  Shape shape;
  std::vector<Number> numbers;
};

// A tensor of `dtype` with these numbers. kInvalidArgument: a count other than the shape's; a
// number that the dtype cannot hold (300 as int8, 1.5 as int32, 2 as bool). Narrow floats are
// rounded.
StatusOr<HostTensor> MakeTensor(DType dtype, const NumberArray& array);

// Element `index` (row-major); narrow floats are widened, which is exact.
Number ElementAt(const HostTensor& tensor, int64_t index);

// "[1, 2]": the coordinates of element `index` of `shape`; "" for a scalar.
std::string Coordinates(const Shape& shape, int64_t index);

}  // namespace lockstep::cli
