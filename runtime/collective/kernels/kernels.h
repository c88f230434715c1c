// The inner loops of host reductions: combining element ranges.
//
// One source (level.h) is compiled once per instruction set; the best that this machine has is
// chosen when the program starts. All levels give the same bits (except which NaN a NaN is).
//
// Threads: everything here is stateless.
#pragma once

#include <cstddef>

#include "absl/types/span.h"
#include "runtime/base/bulk_memory.h"
#include "runtime/base/dtype.h"
#include "runtime/collective/communicator.h"

namespace lockstep::collective::kernels {

// Combines element i of all `sources`, in their order, and writes the result to element i of all
// `destinations`. At least one source. A destination is identical to a source or overlaps none.
using Combine = void (*)(void* const* destinations, int num_destinations,
                         const void* const* sources, int num_sources, size_t count, Stores stores);

// The loops of one instruction set.
struct Table {
  const char* name;  // "generic", "avx2", "avx512"
  // Null where the reduction is not defined (see Check in checks.h).
  Combine combine[kReduceOpCount][kDTypeCount];
};

// The best table for this machine.
const Table& Best();

// Every table that this machine can run, "generic" first. For tests and benchmarks.
absl::Span<const Table* const> Runnable();

inline Combine CombineFor(ReduceOp op, DType dtype) {
  return Best().combine[static_cast<size_t>(op)][static_cast<size_t>(dtype)];
}

}  // namespace lockstep::collective::kernels
