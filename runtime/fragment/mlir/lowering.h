// From loops on buffers to the LLVM dialect, and from there to the object's entries.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/fragment/mlir/boundary.h"
#include "runtime/fragment/mlir/errors.h"

namespace lockstep::fragment {

// One of the functions of boundary.h: what its arguments are passed, and of which types they are
// (memrefs and scalars).
struct Callee {
  llvm::SmallVector<Parameter> parameters;
  llvm::SmallVector<mlir::Type> types;
};

// Makes everything the LLVM dialect.
mlir::LogicalResult LowerToLlvm(mlir::ModuleOp module, Errors& errors);

// Adds the entries of runtime/fragment/abi.h, which take descriptors apart and call the functions.
// Those must have their guards already (guards.h).
void AddEntries(mlir::ModuleOp module, const Callee& compute, const Callee& sizes);

}  // namespace lockstep::fragment
