// Products of matrices and vectors, which a BLAS may compute (matmul.h).
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace lockstep::fragment {

// True for the named products of matrices and vectors, also of batches of them, of f32 or f64
// alone.
bool IsBlasProduct(mlir::linalg::LinalgOp op);

// True for a product that reads each element once, if its larger operand is computed element by
// element for it alone: computing both in one loop is quicker than a BLAS.
bool IsBetterFused(mlir::linalg::LinalgOp product);

// Gives those their names that are written as linalg.generic: one multiplication and one addition
// in a loop for each of rows, columns, and what is summed up, and maybe batches in front. Operands
// and the result may lie transposed.
void NameProducts(mlir::func::FuncOp function);

}  // namespace lockstep::fragment
