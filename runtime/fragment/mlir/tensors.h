// The first half of compiling, on tensors: what becomes fewer and larger loops, and which products
// are left whole.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace lockstep::fragment {

// A named operation of linalg as linalg.generic, with loops in an order in which the innermost
// walks along memory where that is known: of products, the one of the result's columns.
mlir::FailureOr<mlir::linalg::GenericOp> Generalize(mlir::RewriterBase& rewriter,
                                                    mlir::linalg::LinalgOp op);

// Makes all but products that a BLAS may compute linalg.generic, and fuses what is computed element
// by element.
mlir::LogicalResult OptimizeTensors(mlir::func::FuncOp function);

}  // namespace lockstep::fragment
