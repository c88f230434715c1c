// Functions for the benchmarks. Two work on rows, for plans that exchange some rows while others
// are worked on: one computes, and one only waits, as a host does for a device. A third does
// nothing.
#include <chrono>
#include <cstdint>
#include <thread>

#include "runtime/module/kit/ffi_export.h"

namespace lockstep::bench {

using ffi::kAny;

// (x [rows, inner], weights [columns, inner]) -> x * weights^T [rows, columns]
LOCKSTEP_FFI_EXPORT(multiply_rows, args, result) {
  args.ExpectCount(2);
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny});
  const auto weights = args.Tensor<float>(1, "weights", {kAny, x.dim(1)});
  const auto out = result.NewTensor<float>({x.dim(0), weights.dim(0)});
  const int64_t inner = x.dim(1);
  for (int64_t row = 0; row < x.dim(0); ++row) {
    for (int64_t column = 0; column < weights.dim(0); ++column) {
      const float* const a = x.data() + row * inner;
      const float* const b = weights.data() + column * inner;
      float sums[8] = {};
      for (int64_t i = 0; i + 8 <= inner; i += 8) {
        for (int lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
      }
      float sum = 0;
      for (const float one : sums) sum += one;
      out.data()[row * weights.dim(0) + column] = sum;
    }
  }
}

// (x [rows, inner], weights [columns, inner], nanoseconds) -> [rows, columns] of anything, after so
// long for each row
LOCKSTEP_FFI_EXPORT(wait_for_rows, args, result) {
  args.ExpectCount(3);
  const auto x = args.Tensor<float>(0, "x", {kAny, kAny});
  const auto weights = args.Tensor<float>(1, "weights", {kAny, x.dim(1)});
  const int64_t nanoseconds = args.Int(2, "nanoseconds");
  result.NewTensor<float>({x.dim(0), weights.dim(0)});
  std::this_thread::sleep_for(std::chrono::nanoseconds(x.dim(0) * nanoseconds));
}

// (any, any) -> none
LOCKSTEP_FFI_EXPORT(take_two, args, result) { args.ExpectCount(2); }

}  // namespace lockstep::bench
