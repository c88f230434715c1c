// How compiled code fails, and stops when it is asked to: it returns a code of
// runtime/fragment/abi.h.
//
// Earlier steps say where with cf.assert, whose message is one of those below, and with calls of
// the functions named here, which do not exist: AddGuards() turns all of them into code, once the
// function is in the LLVM dialect.
#pragma once

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/fragment/mlir/source.h"

namespace lockstep::fragment {

// Messages of cf.assert.
inline constexpr char kOutOfBoundsMessage[] = "out of bounds";
inline constexpr char kResultSizeMessage[] = "result size";
inline constexpr char kNegativeSizeMessage[] = "negative size";
inline constexpr char kTooLargeMessage[] = "too large";

// (): returns if the caller has asked for an abort.
inline constexpr char kPoll[] = "lockstep.poll";
// () -> i1: whether the caller has a BLAS.
inline constexpr char kHasMatmul[] = "lockstep.has_matmul";
// The fields of LockstepFragmentMatmul, in their order; pointers are of type index.
inline constexpr char kMatmul[] = "lockstep.matmul";
// (i1 condition, i32 code): what a cf.assert becomes.
inline constexpr char kCheck[] = "lockstep.check";

// Calls the function that is not there.
mlir::Value CallPlaceholder(mlir::OpBuilder& builder, mlir::Location location, const char* name,
                            mlir::TypeRange results, mlir::ValueRange arguments);

// Replaces each cf.assert by a call of kCheck.
void ReplaceAsserts(mlir::ModuleOp module);

// Gives both functions of boundary.h, and bodies (loops.h), the context as their first argument and
// a code as their result, and makes each placeholder, each call of malloc and free, and each
// integer division in them what it stands for.
mlir::LogicalResult AddGuards(mlir::ModuleOp module, const OperationNames& names, Errors& errors);

}  // namespace lockstep::fragment
