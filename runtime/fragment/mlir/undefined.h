// What LLVM leaves undefined is given a meaning, so that no check of ours is optimised away.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace lockstep::fragment {

// In all functions of a module in the LLVM dialect:
//
// - a shift by as many bits as there are or by more gives 0, or the sign
// - a float that fits no integer becomes some integer, always the same one in one call
// - flags that promise something of values are dropped: nsw, nuw, nnan, ninf and their like
// - room on the stack is zero in the beginning. Fails with an error where it is not reserved at
//   the beginning of a function, in a size that is known: in a loop, it would use up the stack
// - a bool in memory is a byte, which is true unless it is 0: arguments may have others than 0 and
// 1
mlir::LogicalResult DefineAll(mlir::ModuleOp module);

}  // namespace lockstep::fragment
