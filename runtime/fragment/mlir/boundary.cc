#include "runtime/fragment/mlir/boundary.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "runtime/fragment/mlir/guards.h"
#include "runtime/fragment/mlir/source.h"
#include "runtime/fragment/mlir/types.h"

namespace lockstep::fragment {
namespace {

// Fails the call unless `result` is as large as `out`.
void CheckResultSize(mlir::OpBuilder& builder, mlir::Location location, mlir::Value result,
                     mlir::Value out) {
  const auto type = mlir::cast<mlir::RankedTensorType>(result.getType());
  for (int64_t d = 0; d < type.getRank(); ++d) {
    if (!type.isDynamicDim(d)) continue;
    const mlir::Value is = builder.create<mlir::tensor::DimOp>(location, result, d);
    const mlir::Value room = builder.create<mlir::memref::DimOp>(location, out, d);
    const mlir::Value equal =
        builder.create<mlir::arith::CmpIOp>(location, mlir::arith::CmpIPredicate::eq, is, room);
    builder.create<mlir::cf::AssertOp>(location, equal, kResultSizeMessage);
  }
}

}  // namespace

mlir::LogicalResult SpecializeArguments(mlir::func::FuncOp function,
                                        const std::vector<TensorType>& types, Errors& errors) {
  if (types.empty()) return mlir::success();
  llvm::SmallVector<unsigned> explicit_arguments;
  const llvm::SmallVector<Parameter> parameters = ParametersOf(function);
  for (unsigned i = 0; i < parameters.size(); ++i) {
    if (parameters[i].kind == Parameter::Kind::kArgument) explicit_arguments.push_back(i);
  }
  if (explicit_arguments.size() != types.size()) {
    return errors.Refuse(function, StatusCode::kInvalidArgument,
                         "the fragment has " + std::to_string(explicit_arguments.size()) +
                             " arguments, and " + std::to_string(types.size()) + " are given");
  }
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&function.getBody().front());
  for (size_t i = 0; i < types.size(); ++i) {
    mlir::BlockArgument argument = function.getArgument(explicit_arguments[i]);
    const auto refuse = [&](const std::string& problem) {
      return errors.Refuse(argument.getLoc(), StatusCode::kInvalidArgument,
                           "argument " + std::to_string(i + 1) + " is " +
                               TextOf(argument.getType()) + ", and " + problem);
    };
    const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(argument.getType());
    const mlir::Type element = tensor ? tensor.getElementType() : argument.getType();
    if (DTypeOfElement(element) != types[i].dtype)
      return refuse("what is given is " + std::string(Name(types[i].dtype)));
    const size_t rank = tensor ? tensor.getRank() : 0;
    if (types[i].extents.size() != rank) {
      return refuse("what is given has " + std::to_string(types[i].extents.size()) + " dimensions");
    }
    llvm::SmallVector<int64_t> shape;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t stated = tensor.getDimSize(d);
      const int64_t given = types[i].extents[d];
      if (given < kOpen ||
          (given >= 0 && !mlir::ShapedType::isDynamic(stated) && given != stated)) {
        return refuse("extent " + std::to_string(given) + " is given in dimension " +
                      std::to_string(d));
      }
      shape.push_back(given >= 0 ? given : stated);
    }
    if (!tensor || tensor.getShape() == llvm::ArrayRef<int64_t>(shape)) continue;
    const auto specialized = mlir::RankedTensorType::get(shape, tensor.getElementType());
    if (const std::string problem = WhyUnsupported(specialized); !problem.empty())
      return refuse(problem);
    argument.setType(specialized);
    auto cast = builder.create<mlir::tensor::CastOp>(argument.getLoc(), tensor, argument);
    argument.replaceAllUsesExcept(cast, cast);
  }
  function.setFunctionType(
      builder.getFunctionType(function.getBody().getArgumentTypes(), function.getResultTypes()));
  return mlir::success();
}

llvm::SmallVector<Parameter> ParametersOf(mlir::func::FuncOp function) {
  const auto is_implicit = [&](int64_t i) {
    return function.getArgAttr(i, kOffsetAttribute) || function.getArgAttr(i, kGlobalSizeAttribute);
  };
  // What the caller calls the argument at `position` of the function.
  const auto number = [&](int64_t position) {
    int count = 0;
    for (int64_t i = 0; i < position; ++i) count += is_implicit(i) ? 0 : 1;
    return count;
  };
  llvm::SmallVector<Parameter> parameters;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    const auto offset = function.getArgAttrOfType<mlir::DenseI64ArrayAttr>(i, kOffsetAttribute);
    const auto size = function.getArgAttrOfType<mlir::DenseI64ArrayAttr>(i, kGlobalSizeAttribute);
    if (const mlir::DenseI64ArrayAttr place = offset ? offset : size) {
      const auto kind = offset ? Parameter::Kind::kOffset : Parameter::Kind::kGlobalSize;
      parameters.push_back({kind, number(place[0]), static_cast<int>(place[1])});
    } else {
      parameters.push_back({Parameter::Kind::kArgument, number(i), 0});
    }
  }
  return parameters;
}

void ReturnInPlace(mlir::func::FuncOp function, const std::vector<Signature::Result>& results) {
  function.setSymName(kComputeFunction);
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    function.setArgAttr(i, mlir::bufferization::BufferizationDialect::kWritableAttrName,
                        mlir::BoolAttr::get(function.getContext(), false));
  }
  mlir::Operation* terminator = function.getBody().front().getTerminator();
  mlir::OpBuilder builder(terminator);
  const mlir::Location location = terminator->getLoc();
  for (size_t i = 0; i < results.size(); ++i) {
    const mlir::Value result = terminator->getOperand(i);
    const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(result.getType());
    const auto room = tensor ? mlir::MemRefType::get(tensor.getShape(), tensor.getElementType())
                             : mlir::MemRefType::get({}, result.getType());
    function.insertArgument(function.getNumArguments(), room, {}, location);
    const mlir::Value out = function.getArguments().back();
    if (!tensor) {
      builder.create<mlir::memref::StoreOp>(location, result, out);
    } else if (results[i].sizes_known) {
      builder.create<mlir::bufferization::MaterializeInDestinationOp>(location, mlir::Type(),
                                                                      result, out, true, true);
    } else {
      CheckResultSize(builder, location, result, out);
      const mlir::Value buffer =
          builder.create<mlir::bufferization::ToMemrefOp>(location, room, result, true);
      builder.create<mlir::memref::CopyOp>(location, buffer, out);
    }
  }
  terminator->setOperands({});
  function.removeResAttrsAttr();
  function.setFunctionType(builder.getFunctionType(function.getBody().getArgumentTypes(), {}));
}

}  // namespace lockstep::fragment
