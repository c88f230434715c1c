#include "runtime/fragment/mlir/matmul.h"

#include <limits>

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "runtime/fragment/mlir/guards.h"
#include "runtime/fragment/mlir/loops.h"
#include "runtime/fragment/mlir/products.h"
#include "runtime/fragment/mlir/tensors.h"

namespace lockstep::fragment {
namespace {

namespace linalg = mlir::linalg;
using mlir::Value;

// One operand as a batch of matrices: what LockstepFragmentMatmul has of it.
struct Matrix {
  Value pointer;
  Value row_stride;
  Value batch_stride;
  Value suits_blas;  // i1: whether a BLAS takes it, which counts in int and knows no other strides
};

// What a kind of product has for operands.
struct ProductKind {
  bool a_transposed = false;
  bool b_transposed = false;
  bool batched = false;
  // A vector is a matrix of one column: a is the matrix, b the vector.
  bool is_vector = false;
  // Of two vectors: a is a matrix of one row, b of one column.
  bool is_dot = false;
  int a = 0;
  int b = 1;
};

ProductKind KindOf(mlir::Operation* op) {
  return llvm::TypeSwitch<mlir::Operation*, ProductKind>(op)
      .Case([](linalg::MatmulTransposeAOp) { return ProductKind{.a_transposed = true}; })
      .Case([](linalg::MatmulTransposeBOp) { return ProductKind{.b_transposed = true}; })
      .Case([](linalg::BatchMatmulOp) { return ProductKind{.batched = true}; })
      .Case([](linalg::BatchMatmulTransposeAOp) {
        return ProductKind{.a_transposed = true, .batched = true};
      })
      .Case([](linalg::BatchMatmulTransposeBOp) {
        return ProductKind{.b_transposed = true, .batched = true};
      })
      .Case([](linalg::MatvecOp) { return ProductKind{.is_vector = true}; })
      .Case([](linalg::BatchMatvecOp) { return ProductKind{.batched = true, .is_vector = true}; })
      // y = x * A is y' = A' * x'.
      .Case([](linalg::VecmatOp) {
        return ProductKind{.a_transposed = true, .is_vector = true, .a = 1, .b = 0};
      })
      .Case([](linalg::BatchVecmatOp) {
        return ProductKind{
            .a_transposed = true, .batched = true, .is_vector = true, .a = 1, .b = 0};
      })
      .Case([](linalg::DotOp) { return ProductKind{.is_vector = true, .is_dot = true}; })
      .Default([](mlir::Operation*) { return ProductKind{}; });
}

class ProductLowering {
 public:
  ProductLowering(linalg::LinalgOp op, int64_t threshold)
      : op_(op),
        threshold_(threshold),
        rewriter_(op->getContext()),
        location_(op->getLoc()),
        kind_(KindOf(op)) {
    rewriter_.setInsertionPoint(op);
  }

  mlir::LogicalResult Run() {
    const Value a = op_->getOperand(kind_.a);
    const Value b = op_->getOperand(kind_.b);
    const Value c = op_->getOperand(2);
    const int64_t first = kind_.batched ? 1 : 0;
    const Value one = Index(1);
    const Value batches = kind_.batched ? Extent(a, 0) : one;
    const Value m = kind_.is_dot ? one : Extent(a, first + (kind_.a_transposed ? 1 : 0));
    const Value k = Extent(a, kind_.is_dot ? 0 : first + (kind_.a_transposed ? 0 : 1));
    const Value n = kind_.is_vector ? one : Extent(b, first + (kind_.b_transposed ? 0 : 1));
    const Matrix a_matrix = Describe(a, kind_.is_dot ? Lies::kAsRow : Lies::kAsMatrix);
    const Lies others = kind_.is_vector ? Lies::kAsColumn : Lies::kAsMatrix;
    const Matrix b_matrix = Describe(b, others);
    const Matrix c_matrix = Describe(c, others);
    // Of 0 multiplications none is left to a BLAS.
    Value use = ProductIsAtLeast(rewriter_, location_, {batches, m, n, k},
                                 std::max<double>(1, static_cast<double>(threshold_)));
    for (const Matrix& matrix : {a_matrix, b_matrix, c_matrix}) use = And(use, matrix.suits_blas);
    use = And(use, CallPlaceholder(rewriter_, location_, kHasMatmul, {rewriter_.getI1Type()}, {}));

    const bool is_double = mlir::getElementTypeOrSelf(a).isF64();
    auto choice = rewriter_.create<mlir::scf::IfOp>(location_, use, /*withElseRegion=*/true);
    rewriter_.setInsertionPointToStart(&choice.getThenRegion().front());
    CallPlaceholder(rewriter_, location_, kMatmul, {},
                    {Int(is_double), Int(kind_.a_transposed), Int(kind_.b_transposed), batches, m,
                     n, k, a_matrix.pointer, b_matrix.pointer, c_matrix.pointer,
                     a_matrix.row_stride, b_matrix.row_stride, c_matrix.row_stride,
                     a_matrix.batch_stride, b_matrix.batch_stride, c_matrix.batch_stride});
    op_->moveBefore(choice.getElseRegion().front().getTerminator());
    rewriter_.setInsertionPoint(op_);
    return Generalize(rewriter_, op_);
  }

 private:
  Value Index(int64_t value) {
    return rewriter_.create<mlir::arith::ConstantIndexOp>(location_, value);
  }
  Value Int(bool value) {
    return rewriter_.create<mlir::arith::ConstantIntOp>(location_, value ? 1 : 0, 32);
  }
  Value And(Value a, Value b) { return rewriter_.create<mlir::arith::AndIOp>(location_, a, b); }
  Value Extent(Value memref, int64_t dimension) {
    return rewriter_.create<mlir::memref::DimOp>(location_, memref, dimension);
  }

  // least <= stride, and stride is an int.
  Value IsBetween(Value least, Value stride) {
    const auto at_most = [&](Value a, Value b) {
      return rewriter_.create<mlir::arith::CmpIOp>(location_, mlir::arith::CmpIPredicate::sle, a,
                                                   b);
    };
    return And(at_most(least, stride), at_most(stride, Index(std::numeric_limits<int>::max())));
  }

  enum class Lies : uint8_t { kAsMatrix, kAsRow, kAsColumn };
  Matrix Describe(Value memref, Lies lies) {
    auto metadata = rewriter_.create<mlir::memref::ExtractStridedMetadataOp>(location_, memref);
    const int64_t bytes = mlir::getElementTypeOrSelf(memref).getIntOrFloatBitWidth() / 8;
    const Value base =
        rewriter_.create<mlir::memref::ExtractAlignedPointerAsIndexOp>(location_, memref);
    const Value offset =
        rewriter_.create<mlir::arith::MulIOp>(location_, metadata.getOffset(), Index(bytes));
    const auto strides = metadata.getStrides();
    Matrix matrix;
    matrix.pointer = rewriter_.create<mlir::arith::AddIOp>(location_, base, offset);
    matrix.batch_stride = kind_.batched ? strides[0] : Index(0);
    if (lies == Lies::kAsColumn) {
      matrix.row_stride = strides.empty() ? Index(1) : strides.back();
      // One that is negative would be counted from the vector's other end.
      matrix.suits_blas = IsBetween(Index(1), matrix.row_stride);
    } else {
      matrix.row_stride =
          lies == Lies::kAsRow ? Extent(memref, 0) : Value(strides[strides.size() - 2]);
      const int64_t last = mlir::cast<mlir::MemRefType>(memref.getType()).getRank() - 1;
      const Value columns =
          rewriter_.create<mlir::arith::MaxSIOp>(location_, Index(1), Extent(memref, last));
      const Value is_packed = rewriter_.create<mlir::arith::CmpIOp>(
          location_, mlir::arith::CmpIPredicate::eq, strides.back(), Index(1));
      matrix.suits_blas = And(is_packed, IsBetween(columns, matrix.row_stride));
    }
    return matrix;
  }

  linalg::LinalgOp op_;
  const int64_t threshold_;
  mlir::IRRewriter rewriter_;
  mlir::Location location_;
  const ProductKind kind_;
};

}  // namespace

mlir::LogicalResult LowerProducts(mlir::func::FuncOp function, int64_t threshold) {
  llvm::SmallVector<linalg::LinalgOp> products;
  function->walk([&](linalg::LinalgOp op) {
    if (IsBlasProduct(op)) products.push_back(op);
  });
  for (linalg::LinalgOp product : products) {
    if (failed(ProductLowering(product, threshold).Run())) return mlir::failure();
  }
  return mlir::success();
}

}  // namespace lockstep::fragment
