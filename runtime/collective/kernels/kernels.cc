#include "runtime/collective/kernels/kernels.h"

#include <vector>

#include "runtime/collective/kernels/levels.h"

namespace lockstep::collective::kernels {
namespace {

std::vector<const Table*> FindRunnable() {
  std::vector<const Table*> tables = {&kGenericTable};
#if defined(__x86_64__)
  // Every processor with AVX2 has F16C, whose name not all compilers know here.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
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
const std::vector<const Table*> kRunnable = FindRunnable();
const Table* const kBest = kRunnable.back();

}  // namespace

const Table& Best() { return *kBest; }

absl::Span<const Table* const> Runnable() { return kRunnable; }

}  // namespace lockstep::collective::kernels
