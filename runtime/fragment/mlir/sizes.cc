#include "runtime/fragment/mlir/sizes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

namespace lockstep::fragment {
namespace {

using mlir::Value;

// Follows extents and scalars back, and writes what computes them from the arguments. A null Value:
// it cannot be told.
class ExtentWriter {
 public:
  // The arguments of `function` are the first ones of `sizes`, at whose end is written.
  ExtentWriter(mlir::func::FuncOp function, mlir::func::FuncOp sizes)
      : builder_(mlir::OpBuilder::atBlockEnd(&sizes.getBody().front())),
        location_(function.getLoc()) {
    for (auto [from, to] : llvm::zip(function.getArguments(), sizes.getArguments()))
      arguments_[from] = to;
  }

  Value Extent(Value tensor, int64_t d) {
    const auto type = mlir::cast<mlir::RankedTensorType>(tensor.getType());
    if (!type.isDynamicDim(d)) return Index(type.getDimSize(d));
    const auto key = std::pair(tensor, d);
    if (const auto known = extents_.find(key); known != extents_.end()) return known->second;
    const Value extent = Deeper([&] { return FollowExtent(tensor, d); });
    extents_[key] = extent;
    return extent;
  }

  Value Index(int64_t value) {
    return Unique(builder_.create<mlir::arith::ConstantIndexOp>(location_, value));
  }
  mlir::OpBuilder& builder() { return builder_; }

 private:
  // Calls `follow`, which may call back here, unless that has gone on for too long for the stack.
  template <typename Follow>
  Value Deeper(const Follow& follow) {
    constexpr int kMaxDepth = 1000;
    if (depth_ == kMaxDepth) return {};
    ++depth_;
    const Value value = follow();
    --depth_;
    return value;
  }

  // The result of an operation that was just written, or of an earlier one that is the same: so
  // that two extents are equal if their values are.
  Value Unique(mlir::Operation* op) {
    for (mlir::Operation& earlier : *op->getBlock()) {
      if (&earlier == op) break;
      if (mlir::OperationEquivalence::isEquivalentTo(&earlier, op,
                                                     mlir::OperationEquivalence::IgnoreLocations)) {
        op->erase();
        return earlier.getResult(0);
      }
    }
    return op->getResult(0);
  }

  Value FollowExtent(Value tensor, int64_t d) {
    if (const auto argument = arguments_.find(tensor); argument != arguments_.end()) {
      const Value dimension = Index(d);
      return Unique(builder_.create<mlir::tensor::DimOp>(location_, argument->second, dimension));
    }
    mlir::Operation* const op = tensor.getDefiningOp();
    // An argument of a region about which nothing was assumed.
    if (op == nullptr) return {};
    const unsigned number = mlir::cast<mlir::OpResult>(tensor).getResultNumber();
    if (auto destination = mlir::dyn_cast<mlir::DestinationStyleOpInterface>(op)) {
      return Extent(destination.getDpsInitOperand(number)->get(), d);
    }
    return llvm::TypeSwitch<mlir::Operation*, Value>(op)
        .Case([&](mlir::scf::ForOp loop) {
          AssumeAll(loop.getRegionIterArgs(), loop.getInitArgs());
          return KeepsExtents(loop.getYieldedValues(), loop.getRegionIterArgs())
                     ? Extent(loop.getInitArgs()[number], d)
                     : Value();
        })
        .Case([&](mlir::scf::WhileOp loop) {
          const auto passed = loop.getConditionOp().getArgs();
          AssumeAll(loop.getBeforeArguments(), loop.getInits());
          AssumeAll(loop.getAfterArguments(), passed);
          return KeepsExtents(loop.getYieldedValues(), loop.getBeforeArguments())
                     ? Extent(passed[number], d)
                     : Value();
        })
        .Case([&](mlir::scf::IfOp choice) {
          return Same(Extent(choice.thenYield().getOperand(number), d),
                      Extent(choice.elseYield().getOperand(number), d));
        })
        .Case([&](mlir::arith::SelectOp select) {
          return Same(Extent(select.getTrueValue(), d), Extent(select.getFalseValue(), d));
        })
        .Case([&](mlir::tensor::EmptyOp empty) { return Scalar(empty.getDynamicSize(d)); })
        .Case([&](mlir::tensor::GenerateOp generate) {
          return Scalar(generate.getDynamicExtents()[generate.getType().getDynamicDimIndex(d)]);
        })
        .Case([&](mlir::tensor::SplatOp splat) {
          return Scalar(splat.getDynamicSizes()[splat.getType().getDynamicDimIndex(d)]);
        })
        .Case([&](mlir::tensor::CastOp cast) { return Extent(cast.getSource(), d); })
        .Case([&](mlir::tensor::ExtractSliceOp slice) { return Scalar(SliceSize(slice, d)); })
        .Case([&](mlir::tensor::ExpandShapeOp expand) {
          return Scalar(mlir::getMixedValues(expand.getStaticOutputShape(), expand.getOutputShape(),
                                             builder_)[d]);
        })
        .Case([&](mlir::tensor::CollapseShapeOp collapse) {
          Value product = Index(1);
          for (const int64_t from : collapse.getReassociationIndices()[d]) {
            product = Combine<mlir::arith::MulIOp>(product, Extent(collapse.getSrc(), from));
          }
          return product;
        })
        .Case([&](mlir::tensor::PadOp pad) {
          const Value low = Scalar(pad.getMixedLowPad()[d]);
          return Combine<mlir::arith::AddIOp>(
              Combine<mlir::arith::AddIOp>(low, Extent(pad.getSource(), d)),
              Scalar(pad.getMixedHighPad()[d]));
        })
        .Case([&](mlir::tensor::ConcatOp concat) {
          if (static_cast<int64_t>(concat.getDim()) != d) return Extent(concat.getInputs()[0], d);
          Value sum = Index(0);
          for (const Value input : concat.getInputs())
            sum = Combine<mlir::arith::AddIOp>(sum, Extent(input, d));
          return sum;
        })
        .Default([&](mlir::Operation* other) -> Value {
          // Element by element.
          if (!other->hasTrait<mlir::OpTrait::Elementwise>()) return {};
          for (const Value operand : other->getOperands()) {
            if (mlir::isa<mlir::RankedTensorType>(operand.getType())) return Extent(operand, d);
          }
          return {};
        });
  }

  // What a loop carries is assumed to keep its extents, ...
  void AssumeAll(mlir::ValueRange arguments, mlir::ValueRange same_as) {
    for (unsigned i = 0; i < arguments.size(); ++i) {
      const auto type = mlir::dyn_cast<mlir::RankedTensorType>(arguments[i].getType());
      for (int64_t d = 0; type && d < type.getRank(); ++d) {
        if (type.isDynamicDim(d)) extents_[{arguments[i], d}] = Extent(same_as[i], d);
      }
    }
  }
  // ... and then what the next iteration gets is found to have them, or not.
  bool KeepsExtents(mlir::ValueRange yielded, mlir::ValueRange arguments) {
    for (unsigned i = 0; i < arguments.size(); ++i) {
      const auto type = mlir::dyn_cast<mlir::RankedTensorType>(arguments[i].getType());
      for (int64_t d = 0; type && d < type.getRank(); ++d) {
        if (!Same(Extent(yielded[i], d), Extent(arguments[i], d))) return false;
      }
    }
    return true;
  }

  static mlir::OpFoldResult SliceSize(mlir::tensor::ExtractSliceOp slice, int64_t d) {
    const llvm::SmallBitVector dropped = slice.getDroppedDims();
    for (int64_t from = 0; from < static_cast<int64_t>(dropped.size()); ++from) {
      if (!dropped.test(from) && d-- == 0) return slice.getMixedSizes()[from];
    }
    return {};
  }

  static Value Same(Value a, Value b) { return a == b ? a : Value(); }

  template <typename Op>
  Value Combine(Value a, Value b) {
    if (!a || !b) return {};
    return Unique(builder_.create<Op>(location_, a, b));
  }

  Value Scalar(mlir::OpFoldResult value) {
    if (const std::optional<int64_t> constant = mlir::getConstantIntValue(value))
      return Index(*constant);
    return value ? Scalar(mlir::dyn_cast<Value>(value)) : Value();
  }

  Value Scalar(Value value) {
    if (const auto known = arguments_.find(value); known != arguments_.end()) return known->second;
    if (const auto known = scalars_.find(value); known != scalars_.end()) return known->second;
    const Value scalar = Deeper([&] { return FollowScalar(value); });
    scalars_[value] = scalar;
    return scalar;
  }

  Value FollowScalar(Value value) {
    mlir::Operation* const op = value.getDefiningOp();
    if (op == nullptr || op->getNumResults() != 1) return {};
    if (auto dim = mlir::dyn_cast<mlir::tensor::DimOp>(op)) {
      const std::optional<int64_t> d = dim.getConstantIndex();
      const auto type = mlir::dyn_cast<mlir::RankedTensorType>(dim.getSource().getType());
      return d.has_value() && type && *d >= 0 && *d < type.getRank() ? Extent(dim.getSource(), *d)
                                                                     : Value();
    }
    if (op->getName().getDialectNamespace() != "arith" || op->getNumRegions() > 0) return {};
    mlir::IRMapping operands;
    for (const Value operand : op->getOperands()) {
      const Value known = Scalar(operand);
      if (!known) return {};
      operands.map(operand, known);
    }
    return Unique(builder_.clone(*op, operands));
  }

  mlir::OpBuilder builder_;
  mlir::Location location_;
  llvm::DenseMap<Value, Value> arguments_;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> extents_;
  llvm::DenseMap<Value, Value> scalars_;
  int depth_ = 0;
};

}  // namespace

void AddSizesFunction(mlir::func::FuncOp function, std::vector<Signature::Result>& results) {
  mlir::OpBuilder builder(function);
  const mlir::Location location = function.getLoc();
  llvm::SmallVector<mlir::Type> types(function.getArgumentTypes());
  types.push_back(mlir::MemRefType::get({mlir::ShapedType::kDynamic}, builder.getIndexType()));
  auto sizes = builder.create<mlir::func::FuncOp>(location, kSizesFunction,
                                                  builder.getFunctionType(types, {}));
  sizes.addEntryBlock();
  ExtentWriter writer(function, sizes);
  mlir::Operation* const terminator = function.getBody().front().getTerminator();
  int64_t position = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    const Value result = terminator->getOperand(i);
    const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(result.getType());
    llvm::SmallVector<Value> extents;
    for (int64_t d = 0; tensor && d < tensor.getRank(); ++d)
      extents.push_back(writer.Extent(result, d));
    results[i].sizes_known =
        llvm::all_of(extents, [](Value extent) { return static_cast<bool>(extent); });
    for (const Value extent : extents) {
      const Value written = results[i].sizes_known ? extent : writer.Index(kOpen);
      const Value at = writer.Index(position++);
      writer.builder().create<mlir::memref::StoreOp>(location, written, sizes.getArguments().back(),
                                                     mlir::ValueRange{at});
    }
  }
  writer.builder().create<mlir::func::ReturnOp>(location);
}

}  // namespace lockstep::fragment
