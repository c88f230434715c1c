// Sums by rivals' ranks, as fast as a compiler makes them for the processor that runs them: what is
// slower than memory would be no rival.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#define LOCKSTEP_BENCH_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define LOCKSTEP_BENCH_CLONES
#endif

namespace lockstep::bench {

// to[i] = a[i] + b[i]; `to` may be `a`.
LOCKSTEP_BENCH_CLONES inline void Add(float* to, const float* a, const float* b, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}
LOCKSTEP_BENCH_CLONES inline void Add(int8_t* to, const int8_t* a, const int8_t* b, size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<int8_t>(a[i] + b[i]);
}
// Of bfloat16: to nearest, ties to even.
LOCKSTEP_BENCH_CLONES inline void Add(uint16_t* to, const uint16_t* a, const uint16_t* b,
                                      size_t count) {
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(std::bit_cast<float>(uint32_t{a[i]} << 16) +
                                              std::bit_cast<float>(uint32_t{b[i]} << 16));
    to[i] = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

}  // namespace lockstep::bench
