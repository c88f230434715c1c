// The inner loops of host collectives: combining and copying element ranges.
//
// One source (level.h) is compiled once per instruction set; the best that this machine has is
// chosen when the program starts. All levels give the same bits (except which NaN a NaN is).
//
// Threads: everything here is stateless.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "runtime/base/dtype.h"
#include "runtime/collective/communicator.h"

namespace lockstep::collective::kernels {

// How results are written. kStream bypasses the caches: for results larger than them.
enum class Stores : bool { kCached = false, kStream = true };

// Combines element i of all `sources`, in their order, and writes the result to element i of all
// `destinations`. At least one source. A destination is identical to a source or overlaps none.
using Combine = void (*)(void* const* destinations, int num_destinations,
                         const void* const* sources, int num_sources, size_t count, Stores stores);

// Copies `size_bytes` from `source` to every destination; none overlaps it.
using Copy = void (*)(void* const* destinations, int num_destinations, const void* source,
                      size_t size_bytes, Stores stores);

// The loops of one instruction set.
struct Table {
  const char* name;  // "generic", "avx2", "avx512"
  // Null where the reduction is not defined (see Check in checks.h).
  Combine combine[kReduceOpCount][kDTypeCount];
  Copy copy;
};

// The best table for this machine.
const Table& Best();

// Every table that this machine can run, "generic" first. For tests and benchmarks.
absl::Span<const Table* const> Runnable();

inline Combine CombineFor(ReduceOp op, DType dtype) {
  return Best().combine[static_cast<size_t>(op)][static_cast<size_t>(dtype)];
}

// Copies within the caches: the fastest way to move lines that lie in another core's cache.
void CopyBytes(void* destination, const void* source, size_t size_bytes);

// True if an operation that touches this many bytes in all leaves the last-level cache.
bool ExceedsCaches(size_t touched_bytes);

}  // namespace lockstep::collective::kernels
