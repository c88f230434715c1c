#include "runtime/fragment/mlir/bounds.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "runtime/fragment/mlir/guards.h"
#include "runtime/fragment/mlir/types.h"

namespace lockstep::fragment {
namespace {

using mlir::arith::CmpIPredicate;

// Writes checks in front of one operation.
class Checker {
 public:
  explicit Checker(mlir::Operation* op) : builder_(op), location_(op->getLoc()) {}

  mlir::Value Index(int64_t value) {
    return builder_.create<mlir::arith::ConstantIndexOp>(location_, value);
  }
  mlir::Value Extent(mlir::Value memref, int64_t dimension) {
    const auto type = mlir::cast<mlir::MemRefType>(memref.getType());
    if (!type.isDynamicDim(dimension)) return Index(type.getDimSize(dimension));
    return builder_.create<mlir::memref::DimOp>(location_, memref, dimension);
  }
  mlir::Value Compare(CmpIPredicate predicate, mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::CmpIOp>(location_, predicate, a, b);
  }
  mlir::Value Or(mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::OrIOp>(location_, a, b);
  }
  mlir::Value Add(mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::AddIOp>(location_, a, b);
  }
  mlir::Value Sub(mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::SubIOp>(location_, a, b);
  }
  mlir::Value Mul(mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::MulIOp>(location_, a, b);
  }
  mlir::Value Materialize(mlir::OpFoldResult value) {
    return mlir::getValueOrCreateConstantIndexOp(builder_, location_, value);
  }
  mlir::Value Evaluate(mlir::AffineExpr expression, mlir::ValueRange dimensions) {
    return mlir::affine::expandAffineExpr(builder_, location_, expression, dimensions, {});
  }
  // 0 <= index < extent, in one comparison.
  void Inside(mlir::Value index, mlir::Value extent) {
    Require(Compare(CmpIPredicate::ult, index, extent), kOutOfBoundsMessage);
  }
  void Require(mlir::Value condition, const char* message) {
    builder_.create<mlir::cf::AssertOp>(location_, condition, message);
  }

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Location location() const { return location_; }

 private:
  mlir::OpBuilder builder_;
  mlir::Location location_;
};

// Each loop has the extent of every dimension that it runs along; other indices stay inside at both
// of the loops' ends, unless a loop is empty.
void CheckLinalg(mlir::linalg::LinalgOp op) {
  Checker check(op);
  llvm::SmallVector<mlir::Value> extents(op.getNumLoops());
  struct Other {
    mlir::AffineExpr expression;
    mlir::Value extent;
  };
  llvm::SmallVector<Other> others;
  for (mlir::OpOperand& operand : op->getOpOperands()) {
    const auto type = mlir::dyn_cast<mlir::MemRefType>(operand.get().getType());
    if (!type) continue;
    const mlir::AffineMap map = op.getMatchingIndexingMap(&operand);
    for (unsigned d = 0; d < map.getNumResults(); ++d) {
      const mlir::Value extent = check.Extent(operand.get(), d);
      const auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(d));
      if (!loop) {
        others.push_back({map.getResult(d), extent});
      } else if (mlir::Value& known = extents[loop.getPosition()]; !known) {
        known = extent;
      } else {
        check.Require(check.Compare(CmpIPredicate::eq, known, extent), kOutOfBoundsMessage);
      }
    }
  }
  if (others.empty()) return;
  llvm::SmallVector<mlir::Value> first;
  llvm::SmallVector<mlir::Value> last;
  mlir::Value is_empty = check.builder().create<mlir::arith::ConstantIntOp>(check.location(), 0, 1);
  for (const mlir::Value extent : extents) {
    // A loop along no dimension cannot be: the verifier wants every loop's extent to follow from an
    // operand.
    if (!extent) return;
    first.push_back(check.Index(0));
    last.push_back(check.Sub(extent, check.Index(1)));
    is_empty = check.Or(is_empty, check.Compare(CmpIPredicate::eq, extent, check.Index(0)));
  }
  for (const Other& other : others) {
    for (const auto& ends : {first, last}) {
      const mlir::Value inside =
          check.Compare(CmpIPredicate::ult, check.Evaluate(other.expression, ends), other.extent);
      check.Require(check.Or(is_empty, inside), kOutOfBoundsMessage);
    }
  }
}

void CheckAccess(mlir::Operation* op, mlir::Value memref, mlir::ValueRange indices) {
  Checker check(op);
  for (unsigned d = 0; d < indices.size(); ++d) check.Inside(indices[d], check.Extent(memref, d));
}

void CheckSlice(mlir::memref::SubViewOp op) {
  Checker check(op);
  const mlir::Value zero = check.Index(0);
  for (unsigned d = 0; d < op.getSourceType().getRank(); ++d) {
    const mlir::Value offset = check.Materialize(op.getMixedOffsets()[d]);
    const mlir::Value size = check.Materialize(op.getMixedSizes()[d]);
    const mlir::Value stride = check.Materialize(op.getMixedStrides()[d]);
    const mlir::Value extent = check.Extent(op.getSource(), d);
    check.Require(check.Compare(CmpIPredicate::sge, size, zero), kNegativeSizeMessage);
    // Neither end outside, and no more than the extent: so that (size - 1) * stride cannot wrap
    // around unseen.
    const mlir::Value is_empty = check.Compare(CmpIPredicate::eq, size, zero);
    const mlir::Value last = check.Add(offset, check.Mul(check.Sub(size, check.Index(1)), stride));
    for (const mlir::Value index : {offset, last}) {
      check.Require(check.Or(is_empty, check.Compare(CmpIPredicate::ult, index, extent)),
                    kOutOfBoundsMessage);
    }
    check.Require(check.Compare(CmpIPredicate::sle, size, extent), kOutOfBoundsMessage);
  }
}

// A cast states extents that were not known.
void CheckCast(mlir::memref::CastOp op) {
  const auto from = mlir::dyn_cast<mlir::MemRefType>(op.getSource().getType());
  const auto to = mlir::dyn_cast<mlir::MemRefType>(op.getType());
  if (!from || !to) return;
  Checker check(op);
  for (unsigned d = 0; d < to.getRank(); ++d) {
    if (!from.isDynamicDim(d) || to.isDynamicDim(d)) continue;
    check.Require(check.Compare(CmpIPredicate::eq, check.Extent(op.getSource(), d),
                                check.Index(to.getDimSize(d))),
                  kOutOfBoundsMessage);
  }
}

// The extents that a dimension is expanded to multiply to its own.
void CheckExpansion(mlir::memref::ExpandShapeOp op) {
  Checker check(op);
  const auto groups = op.getReassociationIndices();
  const llvm::SmallVector<mlir::OpFoldResult> shape =
      mlir::getMixedValues(op.getStaticOutputShape(), op.getOutputShape(), check.builder());
  for (unsigned d = 0; d < groups.size(); ++d) {
    mlir::Value product = check.Index(1);
    for (const int64_t dimension : groups[d]) {
      const mlir::Value extent = check.Materialize(shape[dimension]);
      check.Require(check.Compare(CmpIPredicate::sge, extent, check.Index(0)),
                    kNegativeSizeMessage);
      product = check.Mul(product, extent);
    }
    check.Require(check.Compare(CmpIPredicate::eq, product, check.Extent(op.getSrc(), d)),
                  kOutOfBoundsMessage);
  }
}

}  // namespace

void CheckBounds(mlir::func::FuncOp function) {
  llvm::SmallVector<mlir::Operation*> ops;
  function->walk([&](mlir::Operation* op) { ops.push_back(op); });
  for (mlir::Operation* op : ops) {
    if (auto linalg = mlir::dyn_cast<mlir::linalg::LinalgOp>(op)) {
      CheckLinalg(linalg);
    } else if (auto load = mlir::dyn_cast<mlir::memref::LoadOp>(op)) {
      CheckAccess(op, load.getMemRef(), load.getIndices());
    } else if (auto store = mlir::dyn_cast<mlir::memref::StoreOp>(op)) {
      CheckAccess(op, store.getMemRef(), store.getIndices());
    } else if (auto slice = mlir::dyn_cast<mlir::memref::SubViewOp>(op)) {
      CheckSlice(slice);
    } else if (auto cast = mlir::dyn_cast<mlir::memref::CastOp>(op)) {
      CheckCast(cast);
    } else if (auto expansion = mlir::dyn_cast<mlir::memref::ExpandShapeOp>(op)) {
      CheckExpansion(expansion);
    } else if (auto copy = mlir::dyn_cast<mlir::memref::CopyOp>(op)) {
      Checker check(op);
      const auto type = mlir::cast<mlir::MemRefType>(copy.getSource().getType());
      for (unsigned d = 0; d < type.getRank(); ++d) {
        check.Require(check.Compare(CmpIPredicate::eq, check.Extent(copy.getSource(), d),
                                    check.Extent(copy.getTarget(), d)),
                      kOutOfBoundsMessage);
      }
    }
  }
}

void CheckAllocations(mlir::func::FuncOp function) {
  function->walk([&](mlir::memref::AllocOp alloc) {
    Checker check(alloc);
    const mlir::MemRefType type = alloc.getType();
    int64_t static_bytes = BytesOfElement(type.getElementType());
    for (const int64_t extent : type.getShape()) {
      if (!mlir::ShapedType::isDynamic(extent)) static_bytes *= extent;
    }
    // Each extent is below 2^62 / what the others make, or one is 0: then the bytes are, too.
    mlir::Value bytes = check.Index(static_bytes);
    const mlir::Value limit = check.Index(int64_t{1} << 62);
    for (const mlir::Value extent : alloc.getDynamicSizes()) {
      check.Require(check.Compare(CmpIPredicate::sge, extent, check.Index(0)),
                    kNegativeSizeMessage);
      auto product =
          check.builder().create<mlir::arith::MulUIExtendedOp>(check.location(), bytes, extent);
      check.Require(check.Compare(CmpIPredicate::eq, product.getHigh(), check.Index(0)),
                    kTooLargeMessage);
      check.Require(check.Compare(CmpIPredicate::ule, product.getLow(), limit), kTooLargeMessage);
      bytes = product.getLow();
    }
  });
}

}  // namespace lockstep::fragment
