#include "runtime/base/bulk_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
// Chooses the widest vectors that the processor has, at run time.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#include "runtime/base/sanitizers.h"

namespace lockstep {
namespace {

// As Linux knows it, whose last number has the last level. Where it does not know the size of that
// one, another's comes out, which is too small, hence a least. What glibc works out by itself
// (sysconf) is ten times as much in some virtual machines.
constexpr size_t kLeastCacheBytes = size_t{8} << 20;
// What was measured with. Of a larger one others have their share: a virtual machine may see that
// of a whole socket (260 MiB), and a broadcast of 64 MiB among 4 ranks, copied as if all of it were
// free, took 1.7 times as long (`bench --only copy`).
constexpr size_t kMostCacheBytes = size_t{32} << 20;

size_t LastLevelCacheBytes() {
  constexpr int kMostCaches = 8;  // of one processor
  // From the end, because each program pays for this when it starts.
  for (int index = kMostCaches - 1; index >= 0; --index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) +
                       "/size");
    size_t size = 0;
    char unit = 'K';
    if (!(file >> size >> unit)) continue;
    return std::clamp(size << (unit == 'M' ? 20 : 10), kLeastCacheBytes, kMostCacheBytes);
  }
  return kMostCacheBytes;
}

// Set before main, because the hot path should not ask whether it is.
const size_t kCacheBytes = LastLevelCacheBytes();

// For one copy, measured: the break-even is where source and destination fill 3/4 of the cache.
const size_t kStreamFrom = kCacheBytes / 8 * 3;

#if defined(__x86_64__)

// "Enhanced rep movsb": the processor takes ownership of the destination's lines without fetching
// them, which beats loads and stores by half when the lines sit in another core's cache. Sanitizers
// see memcpy, but not what assembly touches.
bool HasFastRepMovsb() {
  constexpr unsigned kErmsBit = 1u << 9;  // of EBX, leaf 7
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return !kSanitized && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
         (ebx & kErmsBit) != 0;
}

// Below this, starting `rep movsb` costs more than it gains.
constexpr size_t kRepMovsbFromBytes = 768;
// From here on memcpy is faster: on processors where its own copy is `rep movsb`, too, that makes
// no difference; on others (AMD's Zen) it goes on with loads and stores where a core's own cache
// ends, which takes 0.74 of the time with 1 MiB (`bench --only copy`), 0.7 in a broadcast to
// another rank.
constexpr size_t kRepMovsbEnd = size_t{1} << 20;

const size_t kRepMovsbFrom = HasFastRepMovsb() ? kRepMovsbFromBytes : SIZE_MAX;
const bool kHasAvx512 = __builtin_cpu_supports("avx512f");

void CopyCached(void* to, const void* from, size_t size_bytes) {
  if (size_bytes >= kRepMovsbFrom && size_bytes < kRepMovsbEnd) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size_bytes) : : "memory");
  } else if (size_bytes > 0) {
    std::memcpy(to, from, size_bytes);
  }
}

// Both copy whole multiples of kStreamBlock to an address aligned to a line.
constexpr size_t kLineBytes = 64;
constexpr size_t kStreamBlock = 4 * kLineBytes;

void StreamSse2(std::byte* to, const std::byte* from, size_t size_bytes) {
  for (size_t i = 0; i < size_bytes; i += kLineBytes) {
    __m128i lanes[4];
    for (int k = 0; k < 4; ++k) {
      lanes[k] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i + 16 * k));
    }
    for (int k = 0; k < 4; ++k) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i + 16 * k), lanes[k]);
    }
  }
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
}

void CopyStreaming(void* to, const void* from, size_t size_bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const size_t head = (kLineBytes - reinterpret_cast<uintptr_t>(target) % kLineBytes) % kLineBytes;
  if (size_bytes < head + kStreamBlock) return CopyCached(to, from, size_bytes);
  std::memcpy(target, source, head);
  const size_t body = (size_bytes - head) / kStreamBlock * kStreamBlock;
  (kHasAvx512 ? StreamAvx512 : StreamSse2)(target + head, source + head, body);
  // Streaming stores are not ordered with later ones; this makes them visible first.
  _mm_sfence();
  std::memcpy(target + head + body, source + head + body, size_bytes - head - body);
}

#else

void CopyCached(void* to, const void* from, size_t size_bytes) {
  if (size_bytes > 0) std::memcpy(to, from, size_bytes);
}
void CopyStreaming(void* to, const void* from, size_t size_bytes) {
  CopyCached(to, from, size_bytes);
}

#endif

}  // namespace

void FastCopy(void* to, const void* from, size_t size_bytes, Stores stores) {
  (stores == Stores::kStream ? CopyStreaming : CopyCached)(to, from, size_bytes);
}

void FastCopy(void* to, const void* from, size_t size_bytes) {
  FastCopy(to, from, size_bytes, size_bytes < kStreamFrom ? Stores::kCached : Stores::kStream);
}

// Data that just fits is still better kept: measured, the break-even is at 5/4 of the cache.
size_t LeastThatExceedsCaches() { return kCacheBytes / 4 * 5 + 1; }

bool ExceedsCaches(size_t touched_bytes) { return touched_bytes >= LeastThatExceedsCaches(); }

uint64_t Checksum(const void* data, size_t size_bytes) { return XXH3_64bits(data, size_bytes); }

}  // namespace lockstep
