#include "runtime/fragment/mlir/tensors.h"

#include <optional>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/fragment/mlir/guards.h"
#include "runtime/fragment/mlir/products.h"

namespace lockstep::fragment {
namespace {

namespace linalg = mlir::linalg;
using mlir::Value;

linalg::FillOp Fill(mlir::OpBuilder& builder, mlir::Location location, mlir::RankedTensorType type,
                    mlir::ValueRange dynamic_sizes, Value scalar) {
  const Value empty = builder.create<mlir::tensor::EmptyOp>(location, type, dynamic_sizes);
  return builder.create<linalg::FillOp>(location, scalar, empty);
}

// Tensors of one value that are constants would be as many bytes of the object, and tensor.splat is
// not fused.
void FillInsteadOfSplats(mlir::func::FuncOp function) {
  llvm::SmallVector<mlir::Operation*> splats;
  function->walk([&](mlir::Operation* op) {
    auto constant = mlir::dyn_cast<mlir::arith::ConstantOp>(op);
    const bool is_splat = constant && mlir::isa<mlir::RankedTensorType>(constant.getType()) &&
                          mlir::isa<mlir::SplatElementsAttr>(constant.getValue());
    if (is_splat || mlir::isa<mlir::tensor::SplatOp>(op)) splats.push_back(op);
  });
  for (mlir::Operation* op : splats) {
    mlir::OpBuilder builder(op);
    const auto type = mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType());
    Value scalar;
    mlir::ValueRange sizes;
    if (auto splat = mlir::dyn_cast<mlir::tensor::SplatOp>(op)) {
      scalar = splat.getInput();
      sizes = splat.getDynamicSizes();
    } else {
      const auto elements =
          mlir::cast<mlir::SplatElementsAttr>(mlir::cast<mlir::arith::ConstantOp>(op).getValue());
      scalar = builder.create<mlir::arith::ConstantOp>(op->getLoc(),
                                                       elements.getSplatValue<mlir::TypedAttr>());
    }
    op->replaceAllUsesWith(Fill(builder, op->getLoc(), type, sizes, scalar));
    op->erase();
  }
}

// A tensor.dim of a dimension that is not known becomes a choice among all of them, and fails where
// there is no such dimension: MLIR would look behind the extents, and take stack for each look.
void ChooseAmongDims(mlir::func::FuncOp function) {
  llvm::SmallVector<mlir::tensor::DimOp> dims;
  function->walk([&](mlir::tensor::DimOp op) { dims.push_back(op); });
  for (mlir::tensor::DimOp op : dims) {
    const int64_t rank = mlir::cast<mlir::RankedTensorType>(op.getSource().getType()).getRank();
    const std::optional<int64_t> known = op.getConstantIndex();
    if (known.has_value() && *known >= 0 && *known < rank) continue;
    mlir::OpBuilder builder(op);
    const auto constant = [&](int64_t value) -> Value {
      return builder.create<mlir::arith::ConstantIndexOp>(op.getLoc(), value);
    };
    const auto index_is = [&](mlir::arith::CmpIPredicate predicate, int64_t value) -> Value {
      return builder.create<mlir::arith::CmpIOp>(op.getLoc(), predicate, op.getIndex(),
                                                 constant(value));
    };
    builder.create<mlir::cf::AssertOp>(op.getLoc(), index_is(mlir::arith::CmpIPredicate::ult, rank),
                                       kOutOfBoundsMessage);
    Value extent = constant(0);
    for (int64_t d = 0; d < rank; ++d) {
      extent = builder.create<mlir::arith::SelectOp>(
          op.getLoc(), index_is(mlir::arith::CmpIPredicate::eq, d),
          builder.create<mlir::tensor::DimOp>(op.getLoc(), op.getSource(), d), extent);
    }
    op.replaceAllUsesWith(extent);
    op.erase();
  }
}

// Operations on whole tensors of open extents become loops over their elements before anything is
// folded: of x - x, or x == x, MLIR makes a constant, and one of open extents is none.
void LoopOverElements(mlir::func::FuncOp function) {
  llvm::SmallVector<mlir::Operation*> ops;
  function->walk([&](mlir::Operation* op) {
    const auto is_open = [](mlir::Type type) {
      const auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
      return tensor && !tensor.hasStaticShape();
    };
    if (mlir::OpTrait::hasElementwiseMappableTraits(op) && op->getNumResults() == 1 &&
        llvm::all_of(op->getOperandTypes(), is_open) && is_open(op->getResult(0).getType()))
      ops.push_back(op);
  });
  for (mlir::Operation* op : ops) {
    mlir::OpBuilder builder(op);
    const auto type = mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType());
    Value out;
    for (const Value operand : op->getOperands()) {
      if (operand.getType() == type) out = operand;
    }
    if (!out) {
      out = builder.create<mlir::tensor::EmptyOp>(
          op->getLoc(), mlir::tensor::getMixedSizes(builder, op->getLoc(), op->getOperand(0)),
          type.getElementType());
    }
    const llvm::SmallVector<mlir::AffineMap> maps(op->getNumOperands() + 1,
                                                  builder.getMultiDimIdentityMap(type.getRank()));
    const llvm::SmallVector<mlir::utils::IteratorType> loops(type.getRank(),
                                                             mlir::utils::IteratorType::parallel);
    auto generic = builder.create<linalg::GenericOp>(
        op->getLoc(), type, op->getOperands(), out, maps, loops,
        [&](mlir::OpBuilder& body, mlir::Location location, mlir::ValueRange elements) {
          mlir::Operation* const one = body.create(location, op->getName().getIdentifier(),
                                                   elements.take_front(op->getNumOperands()),
                                                   type.getElementType(), op->getAttrs());
          body.create<linalg::YieldOp>(location, one->getResults());
        });
    op->replaceAllUsesWith(generic);
    op->erase();
  }
}

// One for each use, beside its user.
template <typename Op>
void Separate(mlir::func::FuncOp function) {
  llvm::SmallVector<Op> ops;
  function->walk([&](Op op) { ops.push_back(op); });
  for (Op op : ops) {
    for (mlir::OpOperand& use : llvm::make_early_inc_range(op->getUses())) {
      mlir::OpBuilder builder(use.getOwner());
      use.set(builder.clone(*op)->getResult(0));
    }
    op.erase();
  }
}

// linalg.map and linalg.reduce, which say what they compute in a region of their own.
linalg::GenericOp GeneralizeRegion(mlir::RewriterBase& rewriter, linalg::LinalgOp op) {
  auto generic = rewriter.create<linalg::GenericOp>(
      op.getLoc(), op->getResultTypes(), op.getDpsInputs(), op.getDpsInits(),
      op.getIndexingMapsArray(), op.getIteratorTypesArray());
  rewriter.inlineRegionBefore(op->getRegion(0), generic.getRegion(), generic.getRegion().begin());
  // What is in the result before does not matter to a map.
  mlir::Block& body = generic.getRegion().front();
  for (unsigned i = body.getNumArguments(); i < generic->getNumOperands(); ++i) {
    body.addArgument(mlir::getElementTypeOrSelf(generic->getOperand(i)), op.getLoc());
  }
  rewriter.replaceOp(op, generic);
  return generic;
}

// A fill that something else is written over stays as it is; one that is read can be fused with its
// reader.
bool IsInitialValue(linalg::LinalgOp op) {
  if (!mlir::isa<linalg::FillOp>(op.getOperation())) return false;
  for (mlir::OpOperand& use : op->getUses()) {
    auto user = mlir::dyn_cast<linalg::LinalgOp>(use.getOwner());
    if (user && !user.isDpsInit(&use)) return false;
  }
  return true;
}

mlir::LogicalResult GeneralizeAll(mlir::func::FuncOp function) {
  llvm::SmallVector<linalg::LinalgOp> ops;
  function->walk([&](linalg::LinalgOp op) {
    const bool is_general = mlir::isa<linalg::GenericOp>(op.getOperation());
    const bool is_left_whole = IsBlasProduct(op) && !IsBetterFused(op);
    if (!is_general && !is_left_whole && !IsInitialValue(op)) ops.push_back(op);
  });
  mlir::IRRewriter rewriter(function.getContext());
  for (linalg::LinalgOp op : ops) {
    rewriter.setInsertionPoint(op);
    if (failed(Generalize(rewriter, op))) return op->emitOpError("is not supported");
  }
  return mlir::success();
}

}  // namespace

mlir::FailureOr<linalg::GenericOp> Generalize(mlir::RewriterBase& rewriter, linalg::LinalgOp op) {
  if (mlir::isa<linalg::MapOp, linalg::ReduceOp>(op.getOperation()))
    return GeneralizeRegion(rewriter, op);
  llvm::SmallVector<unsigned> order;
  if (mlir::isa<linalg::MatmulOp, linalg::MatmulTransposeAOp, linalg::BatchVecmatOp>(
          op.getOperation())) {
    order = {0, 2, 1};
  } else if (mlir::isa<linalg::BatchMatmulOp, linalg::BatchMatmulTransposeAOp>(op.getOperation())) {
    order = {0, 1, 3, 2};
  } else if (mlir::isa<linalg::VecmatOp>(op.getOperation())) {
    order = {1, 0};
  }
  auto generic = linalg::generalizeNamedOp(rewriter, op);
  if (failed(generic) || order.empty()) return generic;
  return linalg::interchangeGenericOp(rewriter, *generic, order);
}

mlir::LogicalResult OptimizeTensors(mlir::func::FuncOp function) {
  ChooseAmongDims(function);
  LoopOverElements(function);
  mlir::MLIRContext* context = function.getContext();
  mlir::PassManager simplify(context, mlir::func::FuncOp::getOperationName());
  simplify.addPass(mlir::createCanonicalizerPass());
  simplify.addPass(mlir::createConvertElementwiseToLinalgPass());
  if (failed(simplify.run(function))) return mlir::failure();

  mlir::RewritePatternSet concatenations(context);
  mlir::tensor::populateDecomposeTensorConcatPatterns(concatenations);
  if (failed(mlir::applyPatternsAndFoldGreedily(function, std::move(concatenations))))
    return mlir::failure();
  FillInsteadOfSplats(function);
  Separate<linalg::FillOp>(function);
  NameProducts(function);
  if (failed(GeneralizeAll(function))) return mlir::failure();

  mlir::PassManager fuse(context, mlir::func::FuncOp::getOperationName());
  // The first time, what is written over without being read is found to be so; its sizes then
  // follow from arguments, and operations are no longer kept apart by users that only wanted a
  // size.
  for (int i = 0; i < 2; ++i) {
    fuse.addPass(mlir::createLinalgElementwiseOpFusionPass());
    fuse.addPass(mlir::memref::createResolveShapedTypeResultDimsPass());
    fuse.addPass(mlir::createCanonicalizerPass());
    fuse.addPass(mlir::createCSEPass());
  }
  if (failed(fuse.run(function))) return mlir::failure();
  // Two that shared a buffer would need copies, and one made outside of a loop could not take turns
  // with the loop's other buffers.
  Separate<linalg::FillOp>(function);
  Separate<mlir::tensor::EmptyOp>(function);
  return mlir::success();
}

}  // namespace lockstep::fragment
