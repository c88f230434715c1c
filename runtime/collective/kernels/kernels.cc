#include "runtime/collective/kernels/kernels.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/collective/kernels/levels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lockstep::collective::kernels {
namespace {

std::vector<const Table*> FindRunnable() {
  std::vector<const Table*> tables = {&kGenericTable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    tables.push_back(&kAVX2Table);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      tables.push_back(&kAVX512Table);
    }
  }
#endif
  return tables;
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;  // these see memcpy, but not what assembly touches
#else
constexpr bool kSanitized = false;
#endif

// "Enhanced rep movsb": the processor takes ownership of the destination's lines without fetching
// them, which beats loads and stores by half when the lines sit in another core's cache.
bool HasFastRepMovsb() {
#if defined(__x86_64__)
  constexpr unsigned kErmsBit = 1u << 9;  // of EBX, leaf 7
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return !kSanitized && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
         (ebx & kErmsBit) != 0;
#else
  return false;
#endif
}

// Below this, starting `rep movsb` costs more than it gains.
constexpr size_t kRepMovsbFromBytes = 768;

size_t LastLevelCacheBytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : size_t{32} << 20;
}

// Set before main, because the hot path should not ask whether they are.
const std::vector<const Table*> g_runnable = FindRunnable();
const Table* const g_best = g_runnable.back();
const size_t g_rep_movsb_from_bytes = HasFastRepMovsb() ? kRepMovsbFromBytes : SIZE_MAX;
const size_t g_cache_bytes = LastLevelCacheBytes();

}  // namespace

const Table& Best() { return *g_best; }

absl::Span<const Table* const> Runnable() { return g_runnable; }

void CopyBytes(void* destination, const void* source, size_t size_bytes) {
#if defined(__x86_64__)
  if (size_bytes >= g_rep_movsb_from_bytes) {
    asm volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(size_bytes) : : "memory");
    return;
  }
#endif
  std::memcpy(destination, source, size_bytes);
}

bool ExceedsCaches(size_t touched_bytes) {
  // Data that just fits is still better kept: measured, the break-even is at 5/4 of the cache.
  return touched_bytes > g_cache_bytes / 4 * 5;
}

}  // namespace lockstep::collective::kernels
