// How far a result is from a reference.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"
#include "runtime/control/value.h"

namespace lockstep::cli {

// Elements agree if |actual - reference| <= atol + rtol * |reference|; nan agrees with nan. These
// are the rule, and the defaults, of numpy.allclose.
struct Tolerance {
  double relative = 1e-5;
  double absolute = 1e-8;
};

struct Comparison {
  int64_t elements = 0;
  int64_t different = 0;
  double largest = 0;      // difference of all elements; nan: only one of the two is nan
  int64_t largest_at = 0;  // its index, row-major

  bool Agrees() const { return different == 0; }
};

// Dtypes may differ. kInvalidArgument: other shapes.
StatusOr<Comparison> Compare(const HostTensor& actual, const HostTensor& reference,
                             const Tolerance& tolerance);

// "12 of 300 elements differ; the largest difference is 0.5, at [1, 2]: 3.5, expected 3"; "the
// largest difference is 1e-9, at [4]" of those that agree.
std::string Describe(const Comparison& comparison, const HostTensor& actual,
                     const HostTensor& reference);

}  // namespace lockstep::cli
