// Products of matrices for compiled fragments, by the BLAS of this machine.
#pragma once

#include "runtime/base/status.h"
#include "runtime/fragment/abi.h"

namespace lockstep::fragment {

using MatmulFunction = int32_t (*)(LockstepFragmentContext* context,
                                   const LockstepFragmentMatmul* matmul);

// LockstepFragmentContext::matmul, by OpenBLAS, which is loaded with the first call for as long as
// the process lives. It computes large products in parts, which the context's parallel() may divide
// among threads, and polls `abort` between them. OpenBLAS starts no threads of its own, also where
// OpenMP would give it some in each thread that calls it: its results would depend on how many. One
// that was built without threads (libopenblas0-serial) is called by one thread at a time, and
// others by as many as they were built for: workers in threads, and a fragment's own, wait for each
// other.
//
// kUnavailable says what is missing: a fragment then uses its own loops (matmul = nullptr).
//
// Threads: safe, here and in the function.
StatusOr<MatmulFunction> FindBlas();

}  // namespace lockstep::fragment
