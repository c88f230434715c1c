// Products of matrices, by the caller's BLAS.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::fragment {

// Makes each product (IsBlasProduct) a call of the context's matmul() where it has `threshold`
// multiplications or more, the caller has a BLAS, and rows lie as a BLAS wants them. Otherwise,
// loops: an operation of linalg is left for these. Both is decided while it runs, unless the sizes
// say it before.
mlir::LogicalResult LowerProducts(mlir::func::FuncOp function, int64_t threshold);

}  // namespace lockstep::fragment
