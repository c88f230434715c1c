// From a fragment's text to a function that is known to be one that we compile, and its signature.
#pragma once

#include <map>
#include <string>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/fragment/mlir/compiler.h"
#include "runtime/fragment/mlir/errors.h"

namespace lockstep::fragment {

// Attributes of arguments of type index, which say what the caller passes for them:
//
//     func.func @f(%x: tensor<?x4xf64>,
//                  %first: index {lockstep.offset = array<i64: 0, 0>},      // of argument 0,
//                  dimension 0 %rows: index {lockstep.global_size = array<i64: 0, 0>})
inline constexpr char kOffsetAttribute[] = "lockstep.offset";
inline constexpr char kGlobalSizeAttribute[] = "lockstep.global_size";

// The dialects that fragments are written in.
void RegisterSourceDialects(mlir::DialectRegistry& registry);

// Parses and verifies; null after an error.
mlir::OwningOpRef<mlir::ModuleOp> ParseSource(const Request& request, mlir::MLIRContext* context,
                                              Errors& errors);

// The module's one function, if there is exactly one and all in it is supported; null after an
// error. Attributes that are neither part of an operation nor ours are removed.
mlir::func::FuncOp CheckSource(mlir::ModuleOp module, Errors& errors);

// Fills in the signature, but for what can be told of results' sizes (sizes.h).
mlir::LogicalResult ReadSignature(mlir::func::FuncOp function, Signature& signature,
                                  Errors& errors);

// The source operations by place: what a run-time error says has failed.
using OperationNames = std::map<Place, std::string>;
OperationNames NamesByPlace(mlir::func::FuncOp function);

}  // namespace lockstep::fragment
