// What kernels of users do, good and bad.
#pragma once

#include <cstdint>

#include "runtime/base/kernel.h"

namespace lockstep::testing {

struct Scale {
  static constexpr char kName[] = "test_scale";
  float* x;
  uint64_t count;
  double factor;

  LOCKSTEP_HOST_DEVICE void Run(uint64_t first, uint64_t step) const {
    for (uint64_t i = first; i < count; i += step) x[i] = static_cast<float>(x[i] * factor);
  }
};

// Does not end before *flag is at least `until`. `flag` lies in host memory that GPUs can read.
struct Spin {
  static constexpr char kName[] = "test_spin";
  const int* flag;
  int64_t until;

  LOCKSTEP_HOST_DEVICE bool IsOver() const {
#ifdef __CUDA_ARCH__
    return *static_cast<const volatile int*>(flag) >= until;
#else
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE) >= until;
#endif
  }
  LOCKSTEP_HOST_DEVICE void Run(uint64_t first, uint64_t) const {
    while (first == 0 && !IsOver()) {
    }
  }
};

// Writes where nothing is.
struct IllegalAddress {
  static constexpr char kName[] = "test_illegal_address";
  volatile int* nowhere;

  LOCKSTEP_HOST_DEVICE void Run(uint64_t first, uint64_t) const { *(nowhere + first) = 1; }
};

}  // namespace lockstep::testing
