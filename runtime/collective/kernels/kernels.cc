#include "runtime/collective/kernels/kernels.h"

#include <vector>

#include "runtime/collective/kernels/levels.h"

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

// Set before main, because the hot path should not ask whether they are.
const std::vector<const Table*> g_runnable = FindRunnable();
const Table* const g_best = g_runnable.back();

}  // namespace

const Table& Best() { return *g_best; }

absl::Span<const Table* const> Runnable() { return g_runnable; }

}  // namespace lockstep::collective::kernels
