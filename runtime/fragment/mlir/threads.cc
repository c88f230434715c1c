#include "runtime/fragment/mlir/threads.h"

#include <cstddef>

#include "runtime/fragment/abi.h"
#include "runtime/fragment/mlir/writer.h"

namespace lockstep::fragment {
namespace {

namespace llvm_ir = mlir::LLVM;
using mlir::Value;

// Its frame is a struct of the body's arguments, without the context and the range.
class ThreadsWriter {
 public:
  ThreadsWriter(llvm_ir::LLVMFuncOp body, llvm_ir::LLVMFuncOp threads)
      : write_(body.getContext(), body.getLoc()), body_(body), threads_(threads) {
    const auto parameters = body.getFunctionType().getParams().drop_front(3);
    frame_ = llvm_ir::LLVMStructType::getLiteral(body.getContext(), parameters);
  }

  void Write(int64_t grain) {
    mlir::OpBuilder& builder = write_.builder();
    llvm_ir::LLVMFuncOp trampoline = WriteTrampoline();
    threads_.setFunctionType(body_.getFunctionType());
    threads_.setLinkage(llvm_ir::Linkage::Internal);
    mlir::Block* const entry = threads_.addEntryBlock(builder);
    const Value context = entry->getArgument(0);
    mlir::Block* const many = builder.createBlock(&threads_.getBody(), threads_.getBody().end());
    mlir::Block* const one = builder.createBlock(&threads_.getBody(), threads_.getBody().end());

    builder.setInsertionPointToStart(entry);
    const Value parallel = write_.LoadPointer(context, offsetof(LockstepFragmentContext, parallel));
    const Value null = builder.create<llvm_ir::ZeroOp>(write_.location(), write_.pointer());
    builder.create<llvm_ir::CondBrOp>(
        write_.location(), write_.Compare(llvm_ir::ICmpPredicate::ne, parallel, null), many, one);

    builder.setInsertionPointToStart(one);
    Return(builder.create<llvm_ir::CallOp>(write_.location(), body_, entry->getArguments()));

    builder.setInsertionPointToStart(many);
    const mlir::Type i64 = builder.getI64Type();
    const Value frame = builder.create<llvm_ir::AllocaOp>(write_.location(), write_.pointer(),
                                                          frame_, write_.Constant(i64, 1));
    for (unsigned i = 0; i < frame_.getBody().size(); ++i) {
      builder.create<llvm_ir::StoreOp>(write_.location(), entry->getArgument(i + 3),
                                       Field(frame, i));
    }
    const Value code = builder.create<llvm_ir::AddressOfOp>(write_.location(), trampoline);
    Return(write_.CallContext(context, offsetof(LockstepFragmentContext, parallel),
                              builder.getI32Type(),
                              {code, frame, entry->getArgument(2), write_.Constant(i64, grain)}));
  }

 private:
  // (context, frame, begin, end), as LockstepFragmentBody has them.
  llvm_ir::LLVMFuncOp WriteTrampoline() {
    mlir::OpBuilder& builder = write_.builder();
    builder.setInsertionPoint(body_);
    const mlir::Type i64 = builder.getI64Type();
    auto trampoline = builder.create<llvm_ir::LLVMFuncOp>(
        write_.location(), (body_.getSymName() + ".range").str(),
        llvm_ir::LLVMFunctionType::get(builder.getI32Type(),
                                       {write_.pointer(), write_.pointer(), i64, i64}),
        llvm_ir::Linkage::Internal);
    mlir::Block* const entry = trampoline.addEntryBlock(builder);
    builder.setInsertionPointToStart(entry);
    llvm::SmallVector<Value> operands = {entry->getArgument(0), entry->getArgument(2),
                                         entry->getArgument(3)};
    for (unsigned i = 0; i < frame_.getBody().size(); ++i) {
      operands.push_back(builder.create<llvm_ir::LoadOp>(write_.location(), frame_.getBody()[i],
                                                         Field(entry->getArgument(1), i)));
    }
    Return(builder.create<llvm_ir::CallOp>(write_.location(), body_, operands));
    return trampoline;
  }

  Value Field(Value frame, unsigned number) {
    return write_.builder().create<llvm_ir::GEPOp>(
        write_.location(), write_.pointer(), frame_, frame,
        llvm::ArrayRef<llvm_ir::GEPArg>{0, static_cast<int32_t>(number)});
  }
  void Return(llvm_ir::CallOp call) {
    write_.builder().create<llvm_ir::ReturnOp>(write_.location(), call.getResult());
  }

  Writer write_;
  llvm_ir::LLVMFuncOp body_;
  llvm_ir::LLVMFuncOp threads_;
  llvm_ir::LLVMStructType frame_;
};

}  // namespace

void WriteThreads(llvm_ir::LLVMFuncOp body, llvm_ir::LLVMFuncOp threads, int64_t grain) {
  ThreadsWriter(body, threads).Write(grain);
}

}  // namespace lockstep::fragment
