// Random numbers that are the same on every machine, which the distributions of <random> are not.
#pragma once

#include <cstdint>

#include "runtime/base/kernel.h"

namespace lockstep::examples::digits {

// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA
// 2014).
class Random {
 public:
  LOCKSTEP_HOST_DEVICE explicit Random(uint64_t seed) : state_(seed) {}

  LOCKSTEP_HOST_DEVICE uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // In [0, 1).
  LOCKSTEP_HOST_DEVICE double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  // In [0, bound), for bounds so far below 2^64 that the bias does not matter.
  LOCKSTEP_HOST_DEVICE uint64_t Below(uint64_t bound) { return Next() % bound; }

 private:
  uint64_t state_;
};

}  // namespace lockstep::examples::digits
