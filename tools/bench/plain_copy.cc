#include "tools/bench/plain_copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::bench {
namespace {

void LibraryCopy(void* to, const void* from, size_t size_bytes) {
  std::memcpy(to, from, size_bytes);
}

#if defined(__x86_64__)
void MoveString(void* to, const void* from, size_t size_bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size_bytes) : : "memory");
}

// Non-temporal stores write past the caches.
void StreamSse2(void* to, const void* from, size_t size_bytes) {
  auto* target = static_cast<__m128i*>(to);
  const auto* source = static_cast<const __m128i*>(from);
  for (size_t i = 0; i < size_bytes / sizeof(__m128i); i += 4) {
    const __m128i a = _mm_loadu_si128(source + i);
    const __m128i b = _mm_loadu_si128(source + i + 1);
    const __m128i c = _mm_loadu_si128(source + i + 2);
    const __m128i d = _mm_loadu_si128(source + i + 3);
    _mm_stream_si128(target + i, a);
    _mm_stream_si128(target + i + 1, b);
    _mm_stream_si128(target + i + 2, c);
    _mm_stream_si128(target + i + 3, d);
  }
  _mm_sfence();
}

__attribute__((target("avx512f"))) void StreamAvx512(void* to, const void* from,
                                                     size_t size_bytes) {
  auto* target = static_cast<__m512i*>(to);
  const auto* source = static_cast<const __m512i*>(from);
  for (size_t i = 0; i < size_bytes / sizeof(__m512i); i += 4) {
    const __m512i a = _mm512_loadu_si512(source + i);
    const __m512i b = _mm512_loadu_si512(source + i + 1);
    const __m512i c = _mm512_loadu_si512(source + i + 2);
    const __m512i d = _mm512_loadu_si512(source + i + 3);
    _mm512_stream_si512(target + i, a);
    _mm512_stream_si512(target + i + 1, b);
    _mm512_stream_si512(target + i + 2, c);
    _mm512_stream_si512(target + i + 3, d);
  }
  _mm_sfence();
}
#endif

}  // namespace

std::vector<PlainCopy> PlainCopies() {
  std::vector<PlainCopy> copies = {{"memcpy", LibraryCopy}};
#if defined(__x86_64__)
  copies.push_back({"rep movsb", MoveString});
  if (__builtin_cpu_supports("avx512f")) {
    copies.push_back({"non-temporal AVX-512", StreamAvx512});
  } else {
    copies.push_back({"non-temporal SSE2", StreamSse2});
  }
#endif
  return copies;
}

}  // namespace lockstep::bench
