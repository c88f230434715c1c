#include "runtime/fragment/mlir/lowering.h"

#include <cstddef>

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "runtime/fragment/abi.h"
#include "runtime/fragment/mlir/sizes.h"

namespace lockstep::fragment {
namespace {

namespace llvm_ir = mlir::LLVM;
using mlir::Value;

// Writes one entry: a function of three pointers, of which the first is the context.
class EntryWriter {
 public:
  EntryWriter(mlir::ModuleOp module, const char* name, const char* callee)
      : location_(module.getLoc()), builder_(mlir::OpBuilder::atBlockEnd(module.getBody())) {
    pointer_ = llvm_ir::LLVMPointerType::get(module.getContext());
    const auto type =
        llvm_ir::LLVMFunctionType::get(builder_.getI32Type(), {pointer_, pointer_, pointer_});
    auto entry = builder_.create<llvm_ir::LLVMFuncOp>(location_, name, type);
    callee_ = module.lookupSymbol<llvm_ir::LLVMFuncOp>(callee);
    builder_.setInsertionPointToStart(entry.addEntryBlock(builder_));
    context_ = entry.getArgument(0);
    arguments_ = entry.getArgument(1);
    results_ = entry.getArgument(2);
    values_.push_back(context_);
  }

  void Write(const Callee& callee) {
    for (size_t i = 0; i < callee.parameters.size(); ++i)
      Pass(callee.parameters[i], callee.types[i]);
    auto call = builder_.create<llvm_ir::CallOp>(location_, callee_, values_);
    builder_.create<llvm_ir::ReturnOp>(location_, call.getResult());
  }

 private:
  Value At(Value pointer, int64_t bytes) {
    return builder_.create<llvm_ir::GEPOp>(
        location_, pointer_, builder_.getI8Type(), pointer,
        llvm::ArrayRef<llvm_ir::GEPArg>{static_cast<int32_t>(bytes)});
  }
  Value Load(mlir::Type type, Value pointer, int64_t bytes = 0) {
    return builder_.create<llvm_ir::LoadOp>(location_, type, At(pointer, bytes));
  }
  Value Number(int64_t value) {
    return builder_.create<llvm_ir::ConstantOp>(location_, builder_.getI64Type(), value);
  }

  // A field of the descriptor at `index` of `descriptors`.
  Value Field(Value descriptors, int index, size_t field) {
    return Load(pointer_, descriptors, index * sizeof(LockstepFragmentTensor) + field);
  }
  Value Element(Value descriptors, int index, size_t field, int dimension) {
    return Load(builder_.getI64Type(), Field(descriptors, index, field),
                dimension * sizeof(int64_t));
  }

  void Pass(const Parameter& parameter, mlir::Type type) {
    switch (parameter.kind) {
      case Parameter::Kind::kArgument:
        return PassTensor(arguments_, parameter.index, type);
      case Parameter::Kind::kResult:
        return PassTensor(results_, parameter.index, type);
      case Parameter::Kind::kOffset:
        values_.push_back(Element(arguments_, parameter.index,
                                  offsetof(LockstepFragmentTensor, offsets), parameter.dimension));
        return;
      case Parameter::Kind::kGlobalSize:
        values_.push_back(Element(arguments_, parameter.index,
                                  offsetof(LockstepFragmentTensor, global_sizes),
                                  parameter.dimension));
        return;
      case Parameter::Kind::kSizes:
        // It is as long as the callee's constant indices say.
        return PassMemref(results_, {Number(int64_t{1} << 32)});
    }
  }

  void PassTensor(Value descriptors, int index, mlir::Type type) {
    const Value data = Field(descriptors, index, offsetof(LockstepFragmentTensor, data));
    const auto memref = mlir::dyn_cast<mlir::MemRefType>(type);
    if (!memref) return PassScalar(data, type);
    llvm::SmallVector<Value> extents;
    for (int64_t d = 0; d < memref.getRank(); ++d) {
      extents.push_back(memref.isDynamicDim(d) ? Element(descriptors, index,
                                                         offsetof(LockstepFragmentTensor, sizes), d)
                                               : Number(memref.getDimSize(d)));
    }
    PassMemref(data, extents);
  }

  void PassScalar(Value data, mlir::Type type) {
    if (!type.isInteger(1)) {
      values_.push_back(Load(type, data));
      return;
    }
    const Value zero = builder_.create<llvm_ir::ConstantOp>(location_, builder_.getI8Type(), 0);
    values_.push_back(builder_.create<llvm_ir::ICmpOp>(location_, llvm_ir::ICmpPredicate::ne,
                                                       Load(builder_.getI8Type(), data), zero));
  }

  // As MLIR passes a packed memref: two pointers, an offset, extents, strides.
  void PassMemref(Value data, llvm::ArrayRef<Value> extents) {
    values_.append({data, data, Number(0)});
    values_.append(extents.begin(), extents.end());
    llvm::SmallVector<Value> strides(extents.size());
    Value stride = Number(1);
    for (size_t d = extents.size(); d-- > 0;) {
      strides[d] = stride;
      if (d > 0) stride = builder_.create<llvm_ir::MulOp>(location_, stride, extents[d]);
    }
    values_.append(strides.begin(), strides.end());
  }

  mlir::Location location_;
  mlir::OpBuilder builder_;
  llvm_ir::LLVMPointerType pointer_;
  llvm_ir::LLVMFuncOp callee_;
  Value context_;
  Value arguments_;
  Value results_;
  llvm::SmallVector<Value> values_;  // that the callee is called with
};

}  // namespace

mlir::LogicalResult LowerToLlvm(mlir::ModuleOp module, Errors& errors) {
  mlir::MLIRContext* context = module.getContext();
  mlir::RewritePatternSet expansions(context);
  mlir::arith::populateCeilFloorDivExpandOpsPatterns(expansions);
  if (failed(mlir::applyPatternsAndFoldGreedily(module, std::move(expansions))))
    return mlir::failure();

  mlir::PassManager passes(context);
  passes.addPass(mlir::createConvertSCFToCFPass());
  passes.addPass(mlir::memref::createExpandStridedMetadataPass());
  passes.addPass(mlir::createLowerAffinePass());
  passes.addPass(mlir::createConvertMathToLLVMPass());
  passes.addPass(mlir::createConvertMathToLibmPass());
  passes.addPass(mlir::createFinalizeMemRefToLLVMConversionPass());
  passes.addPass(mlir::createArithToLLVMConversionPass());
  passes.addPass(mlir::createConvertFuncToLLVMPass());
  passes.addPass(mlir::createConvertControlFlowToLLVMPass());
  passes.addPass(mlir::createUBToLLVMConversionPass());
  passes.addPass(mlir::createReconcileUnrealizedCastsPass());
  if (failed(passes.run(module))) return mlir::failure();
  const mlir::WalkResult walked = module->walk([&](mlir::Operation* op) -> mlir::WalkResult {
    if (mlir::isa<mlir::ModuleOp>(op) || op->getName().getDialectNamespace() == "llvm") {
      return mlir::WalkResult::advance();
    }
    return errors.Refuse(op, StatusCode::kUnimplemented,
                         op->getName().getStringRef().str() + " is not supported");
  });
  return mlir::failure(walked.wasInterrupted());
}

void AddEntries(mlir::ModuleOp module, const Callee& compute, const Callee& sizes) {
  EntryWriter(module, LOCKSTEP_FRAGMENT_RUN_SYMBOL, kComputeFunction).Write(compute);
  EntryWriter(module, LOCKSTEP_FRAGMENT_SIZES_SYMBOL, kSizesFunction).Write(sizes);
}

}  // namespace lockstep::fragment
