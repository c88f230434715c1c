#include "runtime/base/fast_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep {

#if defined(__x86_64__)
namespace {

// Below this, a call of memcpy is the cheapest.
constexpr size_t kMoveStringFrom = size_t{16} << 10;
// Above this, source and destination together do not fit into a last-level cache's share.
constexpr size_t kStreamFrom = size_t{24} << 20;

void MoveString(void* to, const void* from, size_t size_bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size_bytes) : : "memory");
}

// Both copy whole multiples of kStreamBlock to an address aligned to 64.
constexpr size_t kStreamBlock = 256;

void StreamSse2(std::byte* to, const std::byte* from, size_t size_bytes) {
  for (size_t i = 0; i < size_bytes; i += 64) {
    __m128i lanes[4];
    for (int k = 0; k < 4; ++k) {
      lanes[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + 16 * k));
    }
    for (int k = 0; k < 4; ++k) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + 16 * k), lanes[k]);
    }
  }
  _mm_sfence();
}

__attribute__((target("avx512f"))) void StreamAvx512(std::byte* to, const std::byte* from,
                                                     size_t size_bytes) {
  for (size_t i = 0; i < size_bytes; i += kStreamBlock) {
    __m512i lanes[4];
    for (int k = 0; k < 4; ++k) lanes[k] = _mm512_loadu_si512(from + i + 64 * k);
    for (int k = 0; k < 4; ++k) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i + 64 * k), lanes[k]);
    }
  }
  _mm_sfence();
}

}  // namespace

void FastCopy(void* to, const void* from, size_t size_bytes) {
  if (size_bytes < kMoveStringFrom) {
    if (size_bytes > 0) std::memcpy(to, from, size_bytes);
    return;
  }
  if (size_bytes < kStreamFrom) return MoveString(to, from, size_bytes);

  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const size_t head = (64 - reinterpret_cast<uintptr_t>(target) % 64) % 64;
  std::memcpy(target, source, head);
  const size_t body = (size_bytes - head) / kStreamBlock * kStreamBlock;
  static const bool has_avx512 = __builtin_cpu_supports("avx512f");
  (has_avx512 ? StreamAvx512 : StreamSse2)(target + head, source + head, body);
  std::memcpy(target + head + body, source + head + body, size_bytes - head - body);
}

#else

void FastCopy(void* to, const void* from, size_t size_bytes) {
  if (size_bytes > 0) std::memcpy(to, from, size_bytes);
}

#endif

}  // namespace lockstep
