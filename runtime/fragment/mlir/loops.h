// Loops, and which of them the caller's threads may share.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"

namespace lockstep::fragment {

// A body is a loop nest that was made a function of its own, (begin, end, what it uses): of one of
// its loops it does the iterations from `begin` to `end`, in any order with others, since nothing
// is summed up over them.
inline constexpr char kBodyPrefix[] = "lockstep.body.";
// A function of the same arguments that calls the body, on several threads if the caller has them.
// It does not exist before AddGuards() (guards.h).
inline constexpr char kThreadsPrefix[] = "lockstep.threads.";
// Of a body: for each memref that it uses, whether its memory is no other's.
inline constexpr char kApartAttribute[] = "lockstep.apart";
// Of a body: its ranges begin at multiples of this, so that each of its iterations is computed by
// the same instructions however it is divided.
inline constexpr char kGrainAttribute[] = "lockstep.grain";

// Whether the product of `extents` is `least` or more (i1). Counted in floating point, where sizes
// that no memory holds cannot wrap around.
mlir::Value ProductIsAtLeast(mlir::OpBuilder& builder, mlir::Location location,
                             llvm::ArrayRef<mlir::Value> extents, double least);

// Makes every operation of linalg loops. Of `function`, those that may do much become bodies.
mlir::LogicalResult MakeLoops(mlir::ModuleOp module, mlir::func::FuncOp function);

// The loop of a body that ranges divide.
mlir::Operation* DividedLoop(mlir::func::FuncOp body);

}  // namespace lockstep::fragment
