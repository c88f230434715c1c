// Calls of bodies (loops.h) on several threads.
#pragma once

#include <cstdint>

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace lockstep::fragment {

// Writes `threads`, a declaration so far, for a body that has its guards (guards.h): it puts the
// body's arguments into a frame and calls the context's parallel(), if there is one, with a
// function that takes them from there; else it calls the body.
void WriteThreads(mlir::LLVM::LLVMFuncOp body, mlir::LLVM::LLVMFuncOp threads, int64_t grain);

}  // namespace lockstep::fragment
