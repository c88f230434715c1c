#include "runtime/fragment/mlir/source.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "runtime/fragment/mlir/text_bounds.h"
#include "runtime/fragment/mlir/types.h"

namespace lockstep::fragment {
namespace {

constexpr char kDialects[] = "func, arith, math, tensor, linalg and scf";

bool IsSupportedDialect(llvm::StringRef dialect) {
  for (const char* known : {"func", "arith", "math", "tensor", "linalg", "scf"}) {
    if (dialect == known) return true;
  }
  return false;
}

mlir::LogicalResult CheckTypes(mlir::Operation* op, Errors& errors) {
  const auto check = [&](mlir::Type type, mlir::Location location) -> mlir::LogicalResult {
    const std::string problem = WhyUnsupported(type);
    if (problem.empty()) return mlir::success();
    if (location == op->getLoc()) return errors.Refuse(op, StatusCode::kUnimplemented, problem);
    return errors.Refuse(location, StatusCode::kUnimplemented, problem);
  };
  for (const mlir::Type type : op->getResultTypes()) {
    if (failed(check(type, op->getLoc()))) return mlir::failure();
  }
  for (mlir::Region& region : op->getRegions()) {
    for (const mlir::BlockArgument argument : region.getArguments()) {
      if (failed(check(argument.getType(), argument.getLoc()))) return mlir::failure();
    }
  }
  return mlir::success();
}

// Attributes that are not part of an operation, nor ours: passes and the code generator would obey
// them, and take them for what a compiler has proved.
void RemoveForeignAttributes(mlir::Operation* op) {
  llvm::SmallVector<mlir::StringAttr> foreign;
  for (const mlir::NamedAttribute attribute : op->getDiscardableAttrs())
    foreign.push_back(attribute.getName());
  for (const mlir::StringAttr name : foreign) op->removeDiscardableAttr(name);
  auto function = mlir::dyn_cast<mlir::func::FuncOp>(op);
  if (!function) return;
  function.removeResAttrsAttr();
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    llvm::SmallVector<mlir::NamedAttribute> ours;
    for (const mlir::NamedAttribute attribute :
         mlir::function_interface_impl::getArgAttrs(function, i)) {
      if (attribute.getName() == kOffsetAttribute || attribute.getName() == kGlobalSizeAttribute)
        ours.push_back(attribute);
    }
    function.setArgAttrs(i, ours);
  }
}

mlir::LogicalResult CheckOperation(mlir::Operation* op, Errors& errors) {
  const llvm::StringRef dialect = op->getName().getDialectNamespace();
  if (!IsSupportedDialect(dialect)) {
    return errors.Refuse(
        op, StatusCode::kUnimplemented,
        "dialect " + dialect.str() + " is not supported: fragments are made of " + kDialects);
  }
  if (dialect == "func" && !mlir::isa<mlir::func::FuncOp, mlir::func::ReturnOp>(op)) {
    return errors.Refuse(op, StatusCode::kUnimplemented,
                         op->getName().getStringRef().str() +
                             " is not supported: a fragment is one function, which calls no other");
  }
  RemoveForeignAttributes(op);
  return CheckTypes(op, errors);
}

bool IsImplicit(mlir::func::FuncOp function, unsigned argument) {
  return function.getArgAttr(argument, kOffsetAttribute) ||
         function.getArgAttr(argument, kGlobalSizeAttribute);
}

std::optional<TensorType> ReadType(mlir::Type type) {
  TensorType result;
  mlir::Type element = type;
  if (const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type)) {
    for (const int64_t extent : tensor.getShape()) {
      result.extents.push_back(mlir::ShapedType::isDynamic(extent) ? kOpen : extent);
    }
    element = tensor.getElementType();
  } else {
    result.scalar = true;
  }
  const std::optional<DType> dtype = DTypeOfElement(element);
  if (!dtype.has_value()) return std::nullopt;
  result.dtype = *dtype;
  return result;
}

// Of an attribute [argument, dimension]: marks what the function asks for; `positions` are those in
// the signature.
mlir::LogicalResult MarkUse(mlir::func::FuncOp function, unsigned index, const char* name,
                            llvm::ArrayRef<int> positions, bool Signature::Argument::*use,
                            Signature& signature, Errors& errors) {
  const mlir::Attribute attribute = function.getArgAttr(index, name);
  if (!attribute) return mlir::success();
  const mlir::Location location = function.getArgument(index).getLoc();
  if (!function.getArgument(index).getType().isIndex()) {
    return errors.Refuse(location, StatusCode::kInvalidArgument,
                         std::string(name) + " is for arguments of type index");
  }
  const auto place = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(attribute);
  if (!place || place.size() != 2 || place[0] < 0 ||
      place[0] >= static_cast<int64_t>(positions.size()) || positions[place[0]] < 0) {
    return errors.Refuse(
        location, StatusCode::kInvalidArgument,
        std::string(name) +
            " must name an argument and one of its dimensions, as in array<i64: 0, 1>");
  }
  Signature::Argument& argument = signature.arguments[positions[place[0]]];
  if (place[1] < 0 || place[1] >= argument.type.ndim()) {
    return errors.Refuse(location, StatusCode::kInvalidArgument,
                         std::string(name) + " names dimension " + std::to_string(place[1]) +
                             " of an argument that has " + std::to_string(argument.type.ndim()));
  }
  argument.*use = true;
  return mlir::success();
}

}  // namespace

void RegisterSourceDialects(mlir::DialectRegistry& registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect>();
}

mlir::OwningOpRef<mlir::ModuleOp> ParseSource(const Request& request, mlir::MLIRContext* context,
                                              Errors& errors) {
  // A copy: the lexer finds the end of a text by the zero behind it, and in a request there may be
  // anything.
  const std::string text(request.fragment);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, mlir::ParserConfig(context),
                                                        llvm::StringRef(request.name));
  // A warning of the parser is no reason to go on with what it has not understood.
  if (errors.any()) return nullptr;
  // Of some bytecode it says nothing.
  if (!module) {
    (void)errors.Refuse(
        mlir::UnknownLoc::get(context), StatusCode::kInvalidArgument,
        IsBytecode(request.fragment) ? "the bytecode cannot be read" : "the text cannot be read");
  }
  return module;
}

mlir::func::FuncOp CheckSource(mlir::ModuleOp module, Errors& errors) {
  mlir::func::FuncOp function;
  for (mlir::Operation& op : *module.getBody()) {
    auto found = mlir::dyn_cast<mlir::func::FuncOp>(op);
    if (!found || function || found.isDeclaration()) {
      (void)errors.Refuse(&op, StatusCode::kInvalidArgument,
                          "a fragment is one func.func with a body, and nothing else beside it");
      return nullptr;
    }
    function = found;
  }
  if (!function) {
    (void)errors.Refuse(module, StatusCode::kInvalidArgument, "the fragment has no func.func");
    return nullptr;
  }
  const mlir::WalkResult walked = function->walk<mlir::WalkOrder::PreOrder>(
      [&](mlir::Operation* op) { return mlir::WalkResult(CheckOperation(op, errors)); });
  if (walked.wasInterrupted()) return nullptr;
  RemoveForeignAttributes(module);
  // What was verified may have leaned on an attribute that is gone.
  if (failed(mlir::verify(module))) return nullptr;
  if (!function.getBody().hasOneBlock()) {
    (void)errors.Refuse(function, StatusCode::kUnimplemented,
                        "branches between blocks are not supported: use scf.if");
    return nullptr;
  }
  return function;
}

mlir::LogicalResult ReadSignature(mlir::func::FuncOp function, Signature& signature,
                                  Errors& errors) {
  signature.function = function.getSymName().str();
  llvm::SmallVector<int> positions;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (IsImplicit(function, i)) {
      positions.push_back(-1);
      continue;
    }
    const std::optional<TensorType> type = ReadType(function.getArgument(i).getType());
    if (!type.has_value()) {
      return errors.Refuse(function.getArgument(i).getLoc(), StatusCode::kUnimplemented,
                           "an argument of type " + TextOf(function.getArgument(i).getType()) +
                               " needs the attribute " + kOffsetAttribute + " or " +
                               kGlobalSizeAttribute +
                               "; pass other numbers as i64, and use arith.index_cast");
    }
    positions.push_back(static_cast<int>(signature.arguments.size()));
    signature.arguments.push_back({*type});
  }
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (failed(MarkUse(function, i, kOffsetAttribute, positions, &Signature::Argument::uses_offset,
                       signature, errors)) ||
        failed(MarkUse(function, i, kGlobalSizeAttribute, positions,
                       &Signature::Argument::uses_global_shape, signature, errors))) {
      return mlir::failure();
    }
  }
  for (const mlir::Type type : function.getResultTypes()) {
    const std::optional<TensorType> result = ReadType(type);
    if (!result.has_value()) {
      return errors.Refuse(
          function, StatusCode::kUnimplemented,
          "a result of type " + TextOf(type) + " is not supported: use i64 and arith.index_cast");
    }
    signature.results.push_back({*result});
  }
  if (signature.num_arguments() > Signature::kMaxValues ||
      signature.num_results() > Signature::kMaxValues) {
    return errors.Refuse(function, StatusCode::kInvalidArgument,
                         "the function has " + std::to_string(signature.num_arguments()) +
                             " arguments and " + std::to_string(signature.num_results()) +
                             " results, and may have at most " +
                             std::to_string(Signature::kMaxValues) + " of each");
  }
  if (signature.results.empty()) {
    return errors.Refuse(function, StatusCode::kInvalidArgument,
                         "the function has no result, so it does nothing");
  }
  return mlir::success();
}

OperationNames NamesByPlace(mlir::func::FuncOp function) {
  OperationNames names;
  function->walk([&](mlir::Operation* op) {
    const Place place = PlaceOf(op->getLoc());
    if (place.line != 0) names.emplace(place, op->getName().getStringRef().str());
  });
  return names;
}

}  // namespace lockstep::fragment
