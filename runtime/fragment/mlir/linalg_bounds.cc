#include "runtime/fragment/mlir/linalg_bounds.h"

#include <cmath>
#include <optional>

#include "runtime/fragment/mlir/checker.h"

namespace lockstep::fragment {
namespace {

using mlir::Value;

// Between which values an index is, however far loops have come.
struct Interval {
  Value least;
  Value most;
  double bound = 0;  // of how large both can be, without their sign
};

// A loop that runs has fewer iterations: it runs along a dimension of something that is in memory.
constexpr double kMaxIterations = static_cast<double>(int64_t{1} << 48);
// An index that stays within this, and all that it is computed from, never wraps around.
constexpr double kMaxBound = static_cast<double>(int64_t{1} << 62);

// Of an index that is computed from loops which end at `last`. None: it might wrap around, or it is
// none that we know.
std::optional<Interval> IntervalOf(Checker& check, mlir::AffineExpr expression,
                                   llvm::ArrayRef<Value> last) {
  if (const auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression))
    return Interval{check.Index(0), last[loop.getPosition()], kMaxIterations};
  if (const auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(expression)) {
    const Value value = check.Index(constant.getValue());
    return Interval{value, value, std::abs(static_cast<double>(constant.getValue()))};
  }
  const auto binary = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(expression);
  if (!binary) return std::nullopt;
  const std::optional<Interval> a = IntervalOf(check, binary.getLHS(), last);
  const std::optional<Interval> b = IntervalOf(check, binary.getRHS(), last);
  if (!a || !b) return std::nullopt;
  if (binary.getKind() == mlir::AffineExprKind::Add) {
    if (a->bound + b->bound > kMaxBound) return std::nullopt;
    return Interval{check.Add(a->least, b->least), check.Add(a->most, b->most),
                    a->bound + b->bound};
  }
  const auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS());
  if (!constant) return std::nullopt;
  const int64_t factor = constant.getValue();
  if (binary.getKind() == mlir::AffineExprKind::Mul) {
    const double bound = a->bound * b->bound;
    if (bound > kMaxBound) return std::nullopt;
    const Value products[2] = {check.Mul(a->least, b->least), check.Mul(a->most, b->least)};
    return Interval{products[factor < 0 ? 1 : 0], products[factor < 0 ? 0 : 1], bound};
  }
  if (factor <= 0) return std::nullopt;
  if (binary.getKind() == mlir::AffineExprKind::Mod)
    return Interval{check.Index(0), check.Index(factor - 1), b->bound};
  const auto divide = [&](Value value) -> Value {
    mlir::OpBuilder& builder = check.builder();
    if (binary.getKind() == mlir::AffineExprKind::FloorDiv)
      return builder.create<mlir::arith::FloorDivSIOp>(check.location(), value, b->least);
    return builder.create<mlir::arith::CeilDivSIOp>(check.location(), value, b->least);
  };
  return Interval{divide(a->least), divide(a->most), a->bound};
}

// One index of an operand, and the extent that it has to stay below.
struct Other {
  mlir::AffineExpr index;
  Value extent;
};

class LoopChecker {
 public:
  explicit LoopChecker(mlir::linalg::LinalgOp op)
      : op_(op), check_(op), extents_(op.getNumLoops()) {}

  mlir::LogicalResult Run() {
    for (mlir::OpOperand& operand : op_->getOpOperands()) {
      if (mlir::isa<mlir::MemRefType>(operand.get().getType())) Visit(operand);
    }
    // The verifier wants every loop's extent to follow from an operand.
    if (llvm::any_of(extents_, [](Value extent) { return !extent; }))
      return op_->emitOpError("has a loop along no dimension, which is not supported");
    return others_.empty() ? mlir::success() : CheckOthers();
  }

 private:
  void Visit(mlir::OpOperand& operand) {
    const mlir::AffineMap map = op_.getMatchingIndexingMap(&operand);
    for (unsigned d = 0; d < map.getNumResults(); ++d) {
      const Value extent = check_.Extent(operand.get(), d);
      const auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(d));
      if (!loop) {
        others_.push_back({map.getResult(d), extent});
      } else if (Value& known = extents_[loop.getPosition()]; !known) {
        known = extent;
      } else {
        check_.Require(check_.Compare(Checker::Predicate::eq, known, extent), kOutOfBoundsMessage);
      }
    }
  }

  // The least and the greatest value of each index are inside, unless some loop is empty.
  mlir::LogicalResult CheckOthers() {
    Value is_empty = check_.builder().create<mlir::arith::ConstantIntOp>(check_.location(), 0, 1);
    llvm::SmallVector<Value> last;
    for (const Value extent : extents_) {
      last.push_back(check_.Sub(extent, check_.Index(1)));
      is_empty =
          check_.Or(is_empty, check_.Compare(Checker::Predicate::eq, extent, check_.Index(0)));
    }
    for (const Other& other : others_) {
      const std::optional<Interval> interval = IntervalOf(check_, other.index, last);
      if (!interval.has_value()) {
        std::string text;
        llvm::raw_string_ostream(text) << other.index;
        return op_->emitOpError("with the index " + text +
                                " is not supported: it might be larger than a number can be");
      }
      for (const Value index : {interval->least, interval->most}) {
        const Value inside = check_.Compare(Checker::Predicate::ult, index, other.extent);
        check_.Require(check_.Or(is_empty, inside), kOutOfBoundsMessage);
      }
    }
    return mlir::success();
  }

  mlir::linalg::LinalgOp op_;
  Checker check_;
  llvm::SmallVector<Value> extents_;  // of the loops
  llvm::SmallVector<Other> others_;
};

}  // namespace

mlir::LogicalResult CheckLinalg(mlir::linalg::LinalgOp op) { return LoopChecker(op).Run(); }

}  // namespace lockstep::fragment
