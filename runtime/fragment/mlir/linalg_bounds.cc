#include "runtime/fragment/mlir/linalg_bounds.h"

#include <cstdlib>
#include <optional>

#include "runtime/fragment/mlir/checker.h"

namespace lockstep::fragment {
namespace {

using mlir::Value;

// An index: sum(factors[i] * loop i) + constant.
struct Linear {
  llvm::SmallVector<int64_t> factors;
  int64_t constant = 0;
};

// Factors and constants, and the sum of an index's factors, are so small that no index can wrap
// around: a loop that runs has fewer than 2^48 iterations, since it runs along a dimension of
// something that is in memory.
constexpr int64_t kMaxFactor = int64_t{1} << 14;
bool IsSmall(int64_t number) { return number >= -kMaxFactor && number <= kMaxFactor; }

// Adds up what is in `expression`, times `factor`. False: it is not linear, or not small.
bool AddTerms(mlir::AffineExpr expression, int64_t factor, Linear& sum) {
  if (!IsSmall(factor)) return false;
  if (const auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(expression)) {
    sum.factors[loop.getPosition()] += factor;
    return true;
  }
  if (const auto constant = mlir::dyn_cast<mlir::AffineConstantExpr>(expression)) {
    sum.constant += IsSmall(constant.getValue()) ? constant.getValue() * factor : 0;
    return IsSmall(constant.getValue());
  }
  const auto both = mlir::dyn_cast<mlir::AffineBinaryOpExpr>(expression);
  if (!both) return false;
  if (both.getKind() == mlir::AffineExprKind::Add)
    return AddTerms(both.getLHS(), factor, sum) && AddTerms(both.getRHS(), factor, sum);
  const auto times = mlir::dyn_cast<mlir::AffineConstantExpr>(both.getRHS());
  return both.getKind() == mlir::AffineExprKind::Mul && times && IsSmall(times.getValue()) &&
         AddTerms(both.getLHS(), factor * times.getValue(), sum);
}

std::optional<Linear> AsSum(mlir::AffineExpr expression, unsigned loops) {
  Linear sum;
  sum.factors.resize(loops);
  if (!AddTerms(expression, 1, sum)) return std::nullopt;
  int64_t all = 0;
  for (const int64_t factor : sum.factors) all += std::abs(factor);
  if (all > kMaxFactor || !IsSmall(sum.constant)) return std::nullopt;
  return sum;
}

// One index of an operand, and the extent that it has to stay below.
struct Other {
  Linear index;
  Value extent;
};

class LoopChecker {
 public:
  explicit LoopChecker(mlir::linalg::LinalgOp op)
      : op_(op), check_(op), extents_(op.getNumLoops()) {}

  mlir::LogicalResult Run() {
    for (mlir::OpOperand& operand : op_->getOpOperands()) {
      if (mlir::isa<mlir::MemRefType>(operand.get().getType()) && failed(Visit(operand)))
        return mlir::failure();
    }
    // The verifier wants every loop's extent to follow from an operand.
    if (llvm::any_of(extents_, [](Value extent) { return !extent; }))
      return op_->emitOpError("has a loop along no dimension, which is not supported");
    if (!others_.empty()) CheckOthers();
    return mlir::success();
  }

 private:
  mlir::LogicalResult Visit(mlir::OpOperand& operand) {
    const mlir::AffineMap map = op_.getMatchingIndexingMap(&operand);
    for (unsigned d = 0; d < map.getNumResults(); ++d) {
      const Value extent = check_.Extent(operand.get(), d);
      const auto loop = mlir::dyn_cast<mlir::AffineDimExpr>(map.getResult(d));
      if (!loop) {
        std::optional<Linear> index = AsSum(map.getResult(d), op_.getNumLoops());
        if (!index.has_value()) {
          std::string text;
          llvm::raw_string_ostream(text) << map.getResult(d);
          return op_->emitOpError("with the index " + text +
                                  " is not supported: an index is a sum of loops, each times a "
                                  "constant, and these add up to at most " +
                                  std::to_string(kMaxFactor));
        }
        others_.push_back({std::move(*index), extent});
      } else if (Value& known = extents_[loop.getPosition()]; !known) {
        known = extent;
      } else {
        check_.Require(check_.Compare(Checker::Predicate::eq, known, extent), kOutOfBoundsMessage);
      }
    }
    return mlir::success();
  }

  // The least and the greatest value of each index are inside, unless some loop is empty.
  void CheckOthers() {
    Value is_empty = check_.builder().create<mlir::arith::ConstantIntOp>(check_.location(), 0, 1);
    llvm::SmallVector<Value> lasts;
    for (const Value extent : extents_) {
      lasts.push_back(check_.Sub(extent, check_.Index(1)));
      is_empty =
          check_.Or(is_empty, check_.Compare(Checker::Predicate::eq, extent, check_.Index(0)));
    }
    for (const Other& other : others_) {
      Value least = check_.Index(other.index.constant);
      Value greatest = least;
      for (unsigned i = 0; i < lasts.size(); ++i) {
        const int64_t factor = other.index.factors[i];
        if (factor == 0) continue;
        Value& end = factor < 0 ? least : greatest;
        end = check_.Add(end, check_.Mul(lasts[i], check_.Index(factor)));
      }
      for (const Value index : {least, greatest}) {
        const Value inside = check_.Compare(Checker::Predicate::ult, index, other.extent);
        check_.Require(check_.Or(is_empty, inside), kOutOfBoundsMessage);
      }
    }
  }

  mlir::linalg::LinalgOp op_;
  Checker check_;
  llvm::SmallVector<Value> extents_;  // of the loops
  llvm::SmallVector<Other> others_;
};

}  // namespace

mlir::LogicalResult CheckLinalg(mlir::linalg::LinalgOp op) { return LoopChecker(op).Run(); }

}  // namespace lockstep::fragment
