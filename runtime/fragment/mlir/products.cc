#include "runtime/fragment/mlir/products.h"

#include <optional>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

namespace lockstep::fragment {
namespace {

namespace linalg = mlir::linalg;
using mlir::Value;

// Numbers of loops.
using Loops = llvm::SmallVector<unsigned, 3>;

// c[batch, m, n] += a[batch, m, k] * b[batch, k, n], where each may miss, but for k.
struct Product {
  Value a;
  Value b;
  Value c;
  bool batched = false;
  bool a_transposed = false;  // a[batch, k, m]
  bool b_transposed = false;  // b[batch, n, k]
  int rank = 0;               // of c without batch: 0 has neither m nor n, 1 has no n
};

bool IsSumOf(mlir::arith::AddFOp sum, Value a, Value b) {
  return (sum.getLhs() == a && sum.getRhs() == b) || (sum.getLhs() == b && sum.getRhs() == a);
}

// Whether it yields c + a * b, and does nothing else.
bool MultipliesAndAdds(mlir::Block& body) {
  if (body.getOperations().size() != 3) return false;
  auto product = mlir::dyn_cast<mlir::arith::MulFOp>(body.front());
  auto sum = mlir::dyn_cast<mlir::arith::AddFOp>(*std::next(body.begin()));
  if (!product || !sum || body.getTerminator()->getOperand(0) != sum.getResult()) return false;
  const Value a = body.getArgument(0);
  const Value b = body.getArgument(1);
  const bool multiplies = (product.getLhs() == a && product.getRhs() == b) ||
                          (product.getLhs() == b && product.getRhs() == a);
  return multiplies && IsSumOf(sum, body.getArgument(2), product.getResult());
}

// The loops along an operand's dimensions, if each dimension is one loop, and no two the same.
std::optional<Loops> LoopsOf(mlir::AffineMap map) {
  if (!map.isProjectedPermutation()) return std::nullopt;
  Loops loops;
  for (unsigned d = 0; d < map.getNumResults(); ++d) loops.push_back(map.getDimPosition(d));
  return loops;
}

bool HasOneElementType(linalg::LinalgOp op) {
  const mlir::Type element = mlir::getElementTypeOrSelf(op->getOperand(0));
  if (!element.isF32() && !element.isF64()) return false;
  return llvm::all_of(op->getOperandTypes(),
                      [&](mlir::Type type) { return mlir::getElementTypeOrSelf(type) == element; });
}

std::optional<Product> FindProduct(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 || !HasOneElementType(op) ||
      !MultipliesAndAdds(*op.getBody())) {
    return std::nullopt;
  }
  const llvm::SmallVector<mlir::AffineMap> maps = op.getIndexingMapsArray();
  std::optional<Loops> first = LoopsOf(maps[0]);
  std::optional<Loops> second = LoopsOf(maps[1]);
  std::optional<Loops> result = LoopsOf(maps[2]);
  if (!first || !second || !result) return std::nullopt;
  Product product{op.getOperand(0), op.getOperand(1), op.getOperand(2)};
  const auto has = [](const Loops& loops, unsigned loop) {
    return llvm::is_contained(loops, loop);
  };
  if (!result->empty() && has(*first, result->front()) && has(*second, result->front())) {
    product.batched = true;
    for (Loops* loops : {&*first, &*second, &*result}) {
      if (loops->front() != result->front()) return std::nullopt;
    }
    for (Loops* loops : {&*result, &*first, &*second}) loops->erase(loops->begin());
  }
  // `a` has the result's rows.
  product.rank = static_cast<int>(result->size());
  if (product.rank > 0 && !has(*first, result->front())) {
    std::swap(product.a, product.b);
    std::swap(first, second);
  }
  constexpr unsigned kSizes[3][2] = {{1, 1}, {2, 1}, {2, 2}};  // by rank: of a, and of b
  if (product.rank > 2 || first->size() != kSizes[product.rank][0] ||
      second->size() != kSizes[product.rank][1] ||
      op.getNumLoops() != static_cast<unsigned>(product.rank) + (product.batched ? 2 : 1)) {
    return std::nullopt;
  }
  product.a_transposed = product.rank > 0 && first->back() == result->front();
  product.b_transposed = product.rank == 2 && second->front() == result->back();
  const unsigned k = product.a_transposed ? first->front() : first->back();
  const unsigned k_of_b = product.b_transposed ? second->back() : second->front();
  if (k != k_of_b || has(*result, k)) return std::nullopt;
  if (product.rank == 2 &&
      (product.b_transposed ? second->front() : second->back()) != result->back())
    return std::nullopt;
  return product;
}

class Namer {
 public:
  Namer(mlir::IRRewriter& rewriter, linalg::GenericOp op) : rewriter_(rewriter), op_(op) {
    rewriter_.setInsertionPoint(op);
  }

  void Name(Product product) {
    if (product.rank == 0) {
      // There is no name for a batch of those.
      if (!product.batched) Replace<linalg::DotOp>(product.a, product.b, product.c);
    } else if (product.rank == 1) {
      NameVectorProduct(product);
    } else {
      // Nor for two that are transposed: the second one is laid out anew.
      if (product.a_transposed && product.b_transposed) {
        product.b = Transpose(product.b);
        product.b_transposed = false;
      }
      NameMatrixProduct(product);
    }
  }

 private:
  template <typename Op>
  void Replace(Value first, Value second, Value result) {
    rewriter_.replaceOpWithNewOp<Op>(op_, op_->getResultTypes(), mlir::ValueRange{first, second},
                                     mlir::ValueRange{result});
  }

  void NameVectorProduct(const Product& product) {
    if (product.a_transposed) {
      product.batched ? Replace<linalg::BatchVecmatOp>(product.b, product.a, product.c)
                      : Replace<linalg::VecmatOp>(product.b, product.a, product.c);
    } else {
      product.batched ? Replace<linalg::BatchMatvecOp>(product.a, product.b, product.c)
                      : Replace<linalg::MatvecOp>(product.a, product.b, product.c);
    }
  }

  void NameMatrixProduct(const Product& product) {
    const auto replace = [&](auto plain, auto batched) {
      product.batched ? Replace<decltype(batched)>(product.a, product.b, product.c)
                      : Replace<decltype(plain)>(product.a, product.b, product.c);
    };
    if (product.a_transposed) {
      replace(linalg::MatmulTransposeAOp(), linalg::BatchMatmulTransposeAOp());
    } else if (product.b_transposed) {
      replace(linalg::MatmulTransposeBOp(), linalg::BatchMatmulTransposeBOp());
    } else {
      replace(linalg::MatmulOp(), linalg::BatchMatmulOp());
    }
  }

  // Its last two dimensions the other way round.
  Value Transpose(Value tensor) {
    const auto type = mlir::cast<mlir::RankedTensorType>(tensor.getType());
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    const mlir::Location location = op_.getLoc();
    llvm::SmallVector<mlir::OpFoldResult> extents =
        mlir::tensor::getMixedSizes(rewriter_, location, tensor);
    std::swap(extents[extents.size() - 1], extents[extents.size() - 2]);
    const Value empty =
        rewriter_.create<mlir::tensor::EmptyOp>(location, extents, type.getElementType());
    return rewriter_.create<linalg::TransposeOp>(location, tensor, empty, order)->getResult(0);
  }

  mlir::IRRewriter& rewriter_;
  linalg::GenericOp op_;
};

// Nothing but its user reads it, and it could be computed there.
bool IsComputedForOneUser(Value tensor) {
  auto op = tensor.getDefiningOp<linalg::LinalgOp>();
  return op && !mlir::isa<linalg::FillOp>(op.getOperation()) && tensor.hasOneUse() &&
         op.getNumParallelLoops() == op.getNumLoops();
}

}  // namespace

bool IsBlasProduct(linalg::LinalgOp op) {
  return mlir::isa<linalg::MatmulOp, linalg::MatmulTransposeAOp, linalg::MatmulTransposeBOp,
                   linalg::BatchMatmulOp, linalg::BatchMatmulTransposeAOp,
                   linalg::BatchMatmulTransposeBOp, linalg::MatvecOp, linalg::VecmatOp,
                   linalg::BatchMatvecOp, linalg::BatchVecmatOp, linalg::DotOp>(
             op.getOperation()) &&
         HasOneElementType(op);
}

bool IsBetterFused(linalg::LinalgOp product) {
  if (mlir::isa<linalg::MatvecOp, linalg::BatchMatvecOp>(product.getOperation()))
    return IsComputedForOneUser(product->getOperand(0));
  if (mlir::isa<linalg::VecmatOp, linalg::BatchVecmatOp>(product.getOperation()))
    return IsComputedForOneUser(product->getOperand(1));
  return mlir::isa<linalg::DotOp>(product.getOperation()) &&
         (IsComputedForOneUser(product->getOperand(0)) ||
          IsComputedForOneUser(product->getOperand(1)));
}

void NameProducts(mlir::func::FuncOp function) {
  llvm::SmallVector<linalg::GenericOp> ops;
  function->walk([&](linalg::GenericOp op) { ops.push_back(op); });
  mlir::IRRewriter rewriter(function.getContext());
  for (linalg::GenericOp op : ops) {
    if (const std::optional<Product> product = FindProduct(op); product.has_value())
      Namer(rewriter, op).Name(*product);
  }
}

}  // namespace lockstep::fragment
