// From the LLVM dialect to an object file, and to a shared object.
#pragma once

#include <string>

#include "mlir/IR/BuiltinOps.h"
#include "runtime/fragment/mlir/compiler.h"

namespace lockstep::fragment {

// Optimises for `target` as a C++ compiler does with -O3 (strict floating point: sums keep their
// order unless the fragment says fastmath), and generates code. kUnimplemented: it needs a function
// that neither the C library nor libm has. kInternal: what is handed over is not valid.
StatusOr<std::string> GenerateObject(mlir::ModuleOp module, const Target& target);

// Links an object file to a shared object that exports the entries of runtime/fragment/abi.h alone.
StatusOr<std::string> LinkShared(const std::string& object);

}  // namespace lockstep::fragment
