// What changes no result: the element that a worker without data contributes to what is combined.
#pragma once

#include <array>
#include <cstddef>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/base/reduction.h"
#include "runtime/base/status.h"

namespace lockstep::fragment {

// The bytes of one element; those beyond SizeOf(dtype) are 0. Combined with any value it gives the
// same bits: of floating-point sums it is -0, because 0 would make 0 of -0; of minima and maxima it
// is an infinity, and of other dtypes the largest or least value.
//
// kInvalidArgument: an average, which has none, or a dtype without arithmetic.
StatusOr<std::array<std::byte, 8>> IdentityElement(Reduction op, DType dtype);

}  // namespace lockstep::fragment
