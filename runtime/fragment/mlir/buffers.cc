#include "runtime/fragment/mlir/buffers.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/BufferizationToMemRef/BufferizationToMemRef.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/ControlFlow/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/AllInterfaces.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/AllocationOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/Transforms/BufferDeallocationOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/IR/TensorInferTypeOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/SubsetInsertionOpInterfaceImpl.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/fragment/mlir/boundary.h"
#include "runtime/fragment/mlir/bounds.h"
#include "runtime/fragment/mlir/loops.h"
#include "runtime/fragment/mlir/matmul.h"
#include "runtime/fragment/mlir/types.h"

namespace lockstep::fragment {
namespace {

namespace bufferization = mlir::bufferization;

// Of one buffer on the stack, and of all of them.
constexpr int64_t kMaxStackBytes = 1024;
constexpr int64_t kMaxStackBytesInAll = 65536;

// Small buffers whose life is within one run of a block are reserved once, when the function
// begins.
void PutSmallBuffersOnStack(mlir::func::FuncOp function) {
  int64_t bytes_in_all = 0;
  llvm::SmallVector<mlir::memref::AllocOp> allocs;
  function->walk([&](mlir::memref::AllocOp alloc) { allocs.push_back(alloc); });
  for (mlir::memref::AllocOp alloc : allocs) {
    const mlir::MemRefType type = alloc.getType();
    if (!type.hasStaticShape() || !type.getLayout().isIdentity()) continue;
    int64_t bytes = BytesOfElement(type.getElementType());
    for (const int64_t extent : type.getShape()) bytes *= std::min(extent, kMaxStackBytes);
    if (bytes > kMaxStackBytes || bytes_in_all + bytes > kMaxStackBytesInAll) continue;
    mlir::memref::DeallocOp dealloc;
    int deallocs = 0;
    for (mlir::Operation* user : alloc->getUsers()) {
      if (auto found = mlir::dyn_cast<mlir::memref::DeallocOp>(user)) {
        dealloc = found;
        ++deallocs;
      }
    }
    if (deallocs != 1 || dealloc->getBlock() != alloc->getBlock()) continue;
    bytes_in_all += bytes;
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&function.getBody().front());
    const mlir::Value stack = builder.create<mlir::memref::AllocaOp>(alloc.getLoc(), type);
    alloc.replaceAllUsesWith(stack);
    dealloc.erase();
    alloc.erase();
  }
}

// MLIR finds out the extents of an expanded dimension anew, and can do so if all but one are known.
mlir::LogicalResult CheckExpansion(mlir::tensor::ExpandShapeOp op) {
  for (const auto& group : op.getReassociationIndices()) {
    const auto is_open = [&](int64_t d) { return op.getResultType().isDynamicDim(d); };
    if (llvm::count_if(group, is_open) > 1)
      return op.emitOpError("of one dimension to more than one of open size is not supported");
  }
  return mlir::success();
}

// Of a known 0 and an extent that is not known, MLIR makes a 0 that it knows, against its own rule.
mlir::LogicalResult CheckCollapse(mlir::tensor::CollapseShapeOp op) {
  const mlir::RankedTensorType from = op.getSrcType();
  for (const auto& group : op.getReassociationIndices()) {
    const auto is_open = [&](int64_t d) { return from.isDynamicDim(d); };
    const auto is_empty = [&](int64_t d) { return from.getDimSize(d) == 0; };
    if (llvm::any_of(group, is_open) && llvm::any_of(group, is_empty))
      return op.emitOpError(
          "of a dimension of size 0 and one of open size is not supported: leave both open");
  }
  return mlir::success();
}

mlir::LogicalResult CheckReshapes(mlir::ModuleOp module) {
  const mlir::WalkResult walked = module->walk([](mlir::Operation* op) -> mlir::WalkResult {
    if (auto expand = mlir::dyn_cast<mlir::tensor::ExpandShapeOp>(op))
      return CheckExpansion(expand);
    if (auto collapse = mlir::dyn_cast<mlir::tensor::CollapseShapeOp>(op))
      return CheckCollapse(collapse);
    return mlir::success();
  });
  return mlir::failure(walked.wasInterrupted());
}

// memref.copy may become a call of a library of MLIR's: a loop of linalg does the same.
void CopyByLinalg(mlir::ModuleOp module) {
  llvm::SmallVector<mlir::memref::CopyOp> copies;
  module->walk([&](mlir::memref::CopyOp copy) { copies.push_back(copy); });
  for (mlir::memref::CopyOp copy : copies) {
    mlir::OpBuilder builder(copy);
    builder.create<mlir::linalg::CopyOp>(copy.getLoc(), copy.getSource(), copy.getTarget());
    copy.erase();
  }
}

}  // namespace

void RegisterBufferDialects(mlir::DialectRegistry& registry) {
  registry.insert<bufferization::BufferizationDialect, mlir::memref::MemRefDialect,
                  mlir::affine::AffineDialect, mlir::cf::ControlFlowDialect>();
  mlir::arith::registerBufferizableOpInterfaceExternalModels(registry);
  mlir::arith::registerBufferDeallocationOpInterfaceExternalModels(registry);
  mlir::cf::registerBufferDeallocationOpInterfaceExternalModels(registry);
  bufferization::func_ext::registerBufferizableOpInterfaceExternalModels(registry);
  mlir::linalg::registerAllDialectInterfaceImplementations(registry);
  mlir::memref::registerAllocationOpInterfaceExternalModels(registry);
  mlir::scf::registerBufferizableOpInterfaceExternalModels(registry);
  mlir::scf::registerBufferDeallocationOpInterfaceExternalModels(registry);
  mlir::tensor::registerBufferizableOpInterfaceExternalModels(registry);
  mlir::tensor::registerInferTypeOpInterfaceExternalModels(registry);
  mlir::tensor::registerSubsetOpInterfaceExternalModels(registry);
}

mlir::LogicalResult Bufferize(mlir::ModuleOp module) {
  if (failed(CheckReshapes(module))) return mlir::failure();
  mlir::PassManager bufferize(module.getContext());
  bufferize.addPass(bufferization::createEmptyTensorEliminationPass());
  bufferization::OneShotBufferizationOptions options;
  options.bufferizeFunctionBoundaries = true;
  options.allowReturnAllocsFromLoops = true;
  options.bufferAlignment = 0;  // allocate() aligns all that it gives
  options.setFunctionBoundaryTypeConversion(bufferization::LayoutMapOption::IdentityLayoutMap);
  bufferize.addPass(bufferization::createOneShotBufferizePass(options));
  bufferize.addPass(mlir::createCanonicalizerPass());
  if (failed(bufferize.run(module))) return mlir::failure();

  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    if (function.getSymName() == kComputeFunction && failed(CheckBounds(function)))
      return mlir::failure();
  }

  mlir::PassManager free(module.getContext());
  bufferization::buildBufferDeallocationPipeline(free, {});
  free.addPass(mlir::createBufferizationToMemRefPass());
  free.addPass(mlir::createCanonicalizerPass());
  if (failed(free.run(module))) return mlir::failure();
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    PutSmallBuffersOnStack(function);
    CheckAllocations(function);
  }
  return mlir::success();
}

mlir::LogicalResult LowerToLoops(mlir::ModuleOp module, int64_t blas_threshold) {
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    if (failed(LowerProducts(function, blas_threshold))) return mlir::failure();
  }
  CopyByLinalg(module);
  if (failed(MakeLoops(module, module.lookupSymbol<mlir::func::FuncOp>(kComputeFunction))))
    return mlir::failure();
  mlir::PassManager passes(module.getContext());
  passes.addNestedPass<mlir::func::FuncOp>(mlir::createForallToForLoopPass());
  passes.addPass(mlir::createLowerAffinePass());
  passes.addPass(mlir::createCanonicalizerPass());
  passes.addPass(mlir::createCSEPass());
  passes.addPass(mlir::createLoopInvariantCodeMotionPass());
  return passes.run(module);
}

}  // namespace lockstep::fragment
