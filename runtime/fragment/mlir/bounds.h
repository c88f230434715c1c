// Checks of sizes and indices that are known only while a fragment runs.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace lockstep::fragment {

// In front of each operation on buffers: that its operands fit each other, and that it stays inside
// of them. Those of linalg are checked as a whole, before they become loops. (MLIR's own
// -generate-runtime-verification takes an empty tensor for an error.) Fails with an error at an
// operation that it does not know, rather than leave it unchecked.
mlir::LogicalResult CheckBounds(mlir::func::FuncOp function);

// In front of each allocation: that no extent is negative, and that the bytes can be counted.
void CheckAllocations(mlir::func::FuncOp function);

}  // namespace lockstep::fragment
