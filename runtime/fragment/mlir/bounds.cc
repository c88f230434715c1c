#include "runtime/fragment/mlir/bounds.h"

#include <optional>

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "runtime/fragment/mlir/checker.h"
#include "runtime/fragment/mlir/linalg_bounds.h"
#include "runtime/fragment/mlir/types.h"

namespace lockstep::fragment {
namespace {

using Predicate = Checker::Predicate;
using mlir::Value;

void CheckAccess(mlir::Operation* op, Value memref, mlir::ValueRange indices) {
  Checker check(op);
  for (unsigned d = 0; d < indices.size(); ++d)
    check.RequireInside(indices[d], check.Extent(memref, d));
}

// Fails the call if a * b is less than -2^63, or not less than 2^63.
void CheckProduct(Checker& check, Value a, Value b) {
  auto product = check.builder().create<mlir::arith::MulSIExtendedOp>(check.location(), a, b);
  const Value sign = check.builder().create<mlir::arith::ShRSIOp>(
      check.location(), product.getLow(), check.Index(63));
  check.Require(check.Compare(Predicate::eq, product.getHigh(), sign), kOutOfBoundsMessage);
}

void CheckSlice(mlir::memref::SubViewOp op) {
  Checker check(op);
  for (unsigned d = 0; d < op.getSourceType().getRank(); ++d) {
    const Value offset = check.Materialize(op.getMixedOffsets()[d]);
    const Value size = check.Materialize(op.getMixedSizes()[d]);
    const Value stride = check.Materialize(op.getMixedStrides()[d]);
    const Value extent = check.Extent(op.getSource(), d);
    check.RequireNotNegative(size);
    check.Require(check.Compare(Predicate::sle, size, extent), kOutOfBoundsMessage);
    // Neither end is outside, and on the way from one to the other no number wraps around. Extents
    // of what is in memory are less than 2^48: only strides that are not small could do that.
    const Value is_empty = check.Compare(Predicate::eq, size, check.Index(0));
    const Value steps = check.Sub(size, check.Index(1));
    const std::optional<int64_t> constant = mlir::getConstantIntValue(op.getMixedStrides()[d]);
    if (!constant.has_value() || *constant < -(1 << 14) || *constant > (1 << 14))
      CheckProduct(check, steps, stride);
    const Value last = check.Add(offset, check.Mul(steps, stride));
    for (const Value index : {offset, last}) {
      check.Require(check.Or(is_empty, check.Compare(Predicate::ult, index, extent)),
                    kOutOfBoundsMessage);
    }
  }
}

// A cast states extents that were not known. It must not state strides.
mlir::LogicalResult CheckCast(mlir::memref::CastOp op) {
  const auto from = mlir::dyn_cast<mlir::MemRefType>(op.getSource().getType());
  const auto to = mlir::dyn_cast<mlir::MemRefType>(op.getType());
  llvm::SmallVector<int64_t> from_strides;
  llvm::SmallVector<int64_t> to_strides;
  int64_t from_offset = 0;
  int64_t to_offset = 0;
  if (!from || !to || failed(mlir::getStridesAndOffset(from, from_strides, from_offset)) ||
      failed(mlir::getStridesAndOffset(to, to_strides, to_offset))) {
    return op.emitOpError("is not supported here");
  }
  const auto states = [](int64_t before, int64_t after) {
    return before != after && !mlir::ShapedType::isDynamic(after);
  };
  if (states(from_offset, to_offset)) return op.emitOpError("is not supported here");
  Checker check(op);
  for (unsigned d = 0; d < to.getRank(); ++d) {
    if (states(from_strides[d], to_strides[d])) return op.emitOpError("is not supported here");
    if (!from.isDynamicDim(d) || to.isDynamicDim(d)) continue;
    check.Require(check.Compare(Predicate::eq, check.Extent(op.getSource(), d),
                                check.Index(to.getDimSize(d))),
                  kOutOfBoundsMessage);
  }
  return mlir::success();
}

// The extents that a dimension is expanded to multiply to its own.
void CheckExpansion(mlir::memref::ExpandShapeOp op) {
  Checker check(op);
  const auto groups = op.getReassociationIndices();
  const llvm::SmallVector<mlir::OpFoldResult> shape =
      mlir::getMixedValues(op.getStaticOutputShape(), op.getOutputShape(), check.builder());
  for (unsigned d = 0; d < groups.size(); ++d) {
    Value product = check.Index(1);
    for (const int64_t dimension : groups[d]) {
      const Value extent = check.Materialize(shape[dimension]);
      check.RequireNotNegative(extent);
      product = check.RequiredProduct(product, extent, kOutOfBoundsMessage);
    }
    check.Require(check.Compare(Predicate::eq, product, check.Extent(op.getSrc(), d)),
                  kOutOfBoundsMessage);
  }
}

// The extents, which are read from a buffer, multiply to as many elements as there are.
void CheckReshape(mlir::memref::ReshapeOp op) {
  Checker check(op);
  Value before = check.Index(1);
  const auto source = mlir::cast<mlir::MemRefType>(op.getSource().getType());
  for (unsigned d = 0; d < source.getRank(); ++d)
    before = check.Mul(before, check.Extent(op.getSource(), d));
  Value after = check.Index(1);
  const auto result = mlir::cast<mlir::MemRefType>(op.getType());
  for (unsigned d = 0; d < result.getRank(); ++d) {
    Value extent = check.builder().create<mlir::memref::LoadOp>(check.location(), op.getShape(),
                                                                mlir::ValueRange{check.Index(d)});
    if (!extent.getType().isIndex()) {
      extent = check.builder().create<mlir::arith::IndexCastOp>(
          check.location(), check.builder().getIndexType(), extent);
    }
    check.RequireNotNegative(extent);
    if (!result.isDynamicDim(d)) {
      check.Require(check.Compare(Predicate::eq, extent, check.Index(result.getDimSize(d))),
                    kOutOfBoundsMessage);
    }
    after = check.RequiredProduct(after, extent, kOutOfBoundsMessage);
  }
  check.Require(check.Compare(Predicate::eq, before, after), kOutOfBoundsMessage);
}

void CheckCopy(mlir::memref::CopyOp op) {
  Checker check(op);
  const auto type = mlir::cast<mlir::MemRefType>(op.getSource().getType());
  for (unsigned d = 0; d < type.getRank(); ++d) {
    check.Require(check.Compare(Predicate::eq, check.Extent(op.getSource(), d),
                                check.Extent(op.getTarget(), d)),
                  kOutOfBoundsMessage);
  }
}

// An index that is known, of a dimension that there is: tensor.dim with any other was replaced.
mlir::LogicalResult CheckDim(mlir::memref::DimOp op) {
  const auto type = mlir::dyn_cast<mlir::MemRefType>(op.getSource().getType());
  const std::optional<int64_t> index = op.getConstantIndex();
  if (type && index.has_value() && *index >= 0 && *index < type.getRank()) return mlir::success();
  return op.emitOpError("is not supported here");
}

// What touches no buffer itself.
bool IsHarmless(mlir::Operation* op) {
  if (mlir::isa<mlir::linalg::YieldOp, mlir::linalg::IndexOp, mlir::affine::AffineApplyOp,
                mlir::affine::AffineMinOp, mlir::affine::AffineMaxOp>(op)) {
    return true;
  }
  // These give a buffer to somebody, or take it back.
  if (mlir::isa<mlir::memref::AllocOp, mlir::memref::DeallocOp, mlir::memref::GetGlobalOp,
                mlir::memref::CollapseShapeOp>(op)) {
    return true;
  }
  for (const char* dialect : {"arith", "math", "scf", "func", "cf"}) {
    if (op->getName().getDialectNamespace() == dialect) return true;
  }
  return false;
}

mlir::LogicalResult Check(mlir::Operation* op) {
  const auto checked = [](auto check) {
    return [check](auto op) {
      check(op);
      return mlir::success();
    };
  };
  return llvm::TypeSwitch<mlir::Operation*, mlir::LogicalResult>(op)
      .Case<mlir::linalg::LinalgOp>(&CheckLinalg)
      .Case<mlir::memref::LoadOp, mlir::memref::StoreOp>([&](auto access) {
        CheckAccess(op, access.getMemRef(), access.getIndices());
        return mlir::success();
      })
      .Case<mlir::memref::SubViewOp>(checked(&CheckSlice))
      .Case<mlir::memref::CastOp>(&CheckCast)
      .Case<mlir::memref::ExpandShapeOp>(checked(&CheckExpansion))
      .Case<mlir::memref::ReshapeOp>(checked(&CheckReshape))
      .Case<mlir::memref::CopyOp>(checked(&CheckCopy))
      .Case<mlir::memref::DimOp>(&CheckDim)
      .Default([](mlir::Operation* other) -> mlir::LogicalResult {
        if (IsHarmless(other)) return mlir::success();
        return other->emitOpError("is not supported: nothing checks its bounds");
      });
}

}  // namespace

mlir::LogicalResult CheckBounds(mlir::func::FuncOp function) {
  llvm::SmallVector<mlir::Operation*> ops;
  function->walk([&](mlir::Operation* op) { ops.push_back(op); });
  return mlir::failure(llvm::any_of(ops, [](mlir::Operation* op) { return failed(Check(op)); }));
}

void CheckAllocations(mlir::func::FuncOp function) {
  function->walk([&](mlir::memref::AllocOp alloc) {
    Checker check(alloc);
    const mlir::MemRefType type = alloc.getType();
    int64_t static_bytes = BytesOfElement(type.getElementType());
    for (const int64_t extent : type.getShape()) {
      if (!mlir::ShapedType::isDynamic(extent)) static_bytes *= extent;
    }
    Value bytes = check.Index(static_bytes);
    for (const Value extent : alloc.getDynamicSizes()) {
      check.RequireNotNegative(extent);
      bytes = check.RequiredProduct(bytes, extent, kTooLargeMessage);
    }
  });
}

}  // namespace lockstep::fragment
