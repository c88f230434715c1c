// The second half of compiling, on memory: from tensors to loops.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "runtime/fragment/mlir/errors.h"

namespace lockstep::fragment {

void RegisterBufferDialects(mlir::DialectRegistry& registry);

// Gives each tensor of both functions of boundary.h a buffer, in place where that is possible: what
// an operation computes is written to where the result is wanted. Buffers that are not returned are
// freed as soon as they can be; small ones whose life ends where it began are on the stack.
mlir::LogicalResult Bufferize(mlir::ModuleOp module);

// Makes what is left of linalg loops, and products calls of the caller's BLAS from `blas_threshold`
// multiplications on.
mlir::LogicalResult LowerToLoops(mlir::ModuleOp module, int64_t blas_threshold);

}  // namespace lockstep::fragment
