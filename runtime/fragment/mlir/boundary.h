// Reshapes a fragment's function into the two that a shared object has: one that computes into
// memory that the caller gives, and one that tells how much memory that is.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/fragment/mlir/compiler.h"
#include "runtime/fragment/mlir/errors.h"

namespace lockstep::fragment {

inline constexpr char kComputeFunction[] = "lockstep.compute";

// What the caller passes for an argument of this function, or of @lockstep.sizes (sizes.h).
struct Parameter {
  enum class Kind : uint8_t {
    kArgument,    // the descriptor of argument `index`
    kResult,      // the descriptor of result `index`
    kOffset,      // argument `index`'s offset in `dimension`
    kGlobalSize,  // argument `index`'s global size in `dimension`
    kSizes,       // the array of sizes
  };
  Kind kind = Kind::kArgument;
  int index = 0;
  int dimension = 0;
};

// Gives the arguments the extents that the request knows.
mlir::LogicalResult SpecializeArguments(mlir::func::FuncOp function,
                                        const std::vector<TensorType>& types, Errors& errors);

// What each argument of the function is passed.
llvm::SmallVector<Parameter> ParametersOf(mlir::func::FuncOp function);

// Makes `function` @lockstep.compute, which takes a memref for each result behind its arguments and
// returns nothing. Where a result's size is not known before, it is checked (cf.assert, see
// guards.h) and then copied.
void ReturnInPlace(mlir::func::FuncOp function, const std::vector<Signature::Result>& results);

}  // namespace lockstep::fragment
