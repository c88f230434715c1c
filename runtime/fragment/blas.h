// Products of matrices for compiled fragments, by the BLAS of this machine.
#pragma once

#include "runtime/base/status.h"
#include "runtime/fragment/abi.h"

namespace lockstep::fragment {

using MatmulFunction = int32_t (*)(LockstepFragmentContext* context,
                                   const LockstepFragmentMatmul* matmul);

// LockstepFragmentContext::matmul, by OpenBLAS, which is loaded with the first call for as long as
// the process lives. It computes large products in parts, and polls the context's `abort` between
// them.
//
// kUnavailable says what is missing: a fragment then uses its own loops (matmul = nullptr).
//
// Threads: safe, here and in the function.
StatusOr<MatmulFunction> FindBlas();

// How many threads OpenBLAS uses for a product, in this process; 1 unless this is called. A variant
// without threads (libopenblas0-serial) keeps to 1. kUnavailable as above.
Status SetBlasThreads(int threads);

}  // namespace lockstep::fragment
