// Checks of the indices that the loops of linalg operations use.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace lockstep::fragment {

// In front of `op`, which works on buffers: that each loop has the extent of every dimension that
// it runs along, and that all indices which are sums of multiples of loops stay inside. Fails with
// an error where an index is anything else: no two of its values say where the others are.
mlir::LogicalResult CheckLinalg(mlir::linalg::LinalgOp op);

}  // namespace lockstep::fragment
