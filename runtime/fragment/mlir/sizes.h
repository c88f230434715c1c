// How large a fragment's results will be, told from its arguments before it runs.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/fragment/mlir/compiler.h"

namespace lockstep::fragment {

inline constexpr char kSizesFunction[] = "lockstep.sizes";

// Adds @lockstep.sizes beside `function`: it has the same arguments, and one more, an array
// (memref<?xindex>) that it writes the extents of all results to, one after the other. It follows
// each extent back to extents of arguments, offsets, and scalars, and reads no tensor's elements.
// Where that does not lead anywhere (an extent depends on what is in a tensor, or changes from one
// iteration of a loop to the next) it writes -1 for all extents of the result, and sets its
// sizes_known to false.
void AddSizesFunction(mlir::func::FuncOp function, std::vector<Signature::Result>& results);

}  // namespace lockstep::fragment
