// Checks of the indices that the loops of linalg operations use.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace lockstep::fragment {

// In front of `op`, which works on buffers: that each loop has the extent of every dimension that
// it runs along, and that all other indices, such as i + j, stay inside at their least and at their
// greatest. Fails with an error where an index might wrap around on the way.
mlir::LogicalResult CheckLinalg(mlir::linalg::LinalgOp op);

}  // namespace lockstep::fragment
