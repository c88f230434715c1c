#include "runtime/fragment/mlir/undefined.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Matchers.h"
#include "runtime/fragment/mlir/types.h"

namespace lockstep::fragment {
namespace {

namespace llvm_ir = mlir::LLVM;
using mlir::Value;

// Gives a meaning to one operation.
class Definer {
 public:
  explicit Definer(mlir::Operation* op) : op_(op), builder_(op), location_(op->getLoc()) {}

  mlir::LogicalResult Run() {
    DropPromises();
    if (auto load = mlir::dyn_cast<llvm_ir::LoadOp>(op_)) {
      if (load.getType().isInteger(1)) LoadBool(load);
    } else if (auto store = mlir::dyn_cast<llvm_ir::StoreOp>(op_)) {
      if (store.getValue().getType().isInteger(1)) {
        store.getValueMutable().assign(
            builder_.create<llvm_ir::ZExtOp>(location_, builder_.getI8Type(), store.getValue()));
      }
    } else if (mlir::isa<llvm_ir::ShlOp, llvm_ir::LShrOp, llvm_ir::AShrOp>(op_)) {
      DefineShift();
    } else if (mlir::isa<llvm_ir::FPToSIOp, llvm_ir::FPToUIOp>(op_)) {
      DefineCast();
    } else if (mlir::isa<llvm_ir::UndefOp, llvm_ir::PoisonOp>(op_)) {
      Replace(builder_.create<llvm_ir::ZeroOp>(location_, op_->getResult(0).getType()));
    } else if (auto room = mlir::dyn_cast<llvm_ir::AllocaOp>(op_)) {
      return ZeroRoom(room);
    }
    return mlir::success();
  }

 private:
  Value Constant(mlir::Type type, int64_t value) {
    return builder_.create<llvm_ir::ConstantOp>(location_, type, value);
  }
  void Replace(Value value) {
    op_->getResult(0).replaceAllUsesWith(value);
    op_->erase();
  }

  void DropPromises() {
    if (auto integer = mlir::dyn_cast<llvm_ir::IntegerOverflowFlagsInterface>(op_))
      integer.setOverflowFlags(llvm_ir::IntegerOverflowFlags::none);
    if (auto floating = mlir::dyn_cast<llvm_ir::FastmathFlagsInterface>(op_)) {
      if (const llvm_ir::FastmathFlagsAttr flags = floating.getFastmathAttr()) {
        const auto promises = llvm_ir::FastmathFlags::nnan | llvm_ir::FastmathFlags::ninf;
        op_->setAttr(
            floating.getFastmathAttrName(),
            llvm_ir::FastmathFlagsAttr::get(op_->getContext(), flags.getValue() & ~promises));
      }
    }
    if (auto abs = mlir::dyn_cast<llvm_ir::AbsOp>(op_)) abs.setIsIntMinPoison(false);
    if (auto zeros = mlir::dyn_cast<llvm_ir::CountLeadingZerosOp>(op_))
      zeros.setIsZeroPoison(false);
    if (auto zeros = mlir::dyn_cast<llvm_ir::CountTrailingZerosOp>(op_))
      zeros.setIsZeroPoison(false);
  }

  void LoadBool(llvm_ir::LoadOp load) {
    const mlir::Type byte = builder_.getI8Type();
    const Value loaded = builder_.create<llvm_ir::LoadOp>(location_, byte, load.getAddr());
    Replace(builder_.create<llvm_ir::ICmpOp>(location_, llvm_ir::ICmpPredicate::ne, loaded,
                                             Constant(byte, 0)));
  }

  // By a select, which LLVM knows for what a processor's shift of vectors does anyway.
  void DefineShift() {
    const Value amount = op_->getOperand(1);
    const mlir::Type type = amount.getType();
    const int64_t width = type.getIntOrFloatBitWidth();
    llvm::APInt known;
    if (mlir::matchPattern(amount, mlir::m_ConstantInt(&known)) && known.ult(width)) return;
    const Value last = Constant(type, width - 1);
    if (mlir::isa<llvm_ir::AShrOp>(op_)) {
      op_->setOperand(1, builder_.create<llvm_ir::UMinOp>(location_, amount, last));
      return;
    }
    const Value fits =
        builder_.create<llvm_ir::ICmpOp>(location_, llvm_ir::ICmpPredicate::ule, amount, last);
    builder_.setInsertionPointAfter(op_);
    Value result = op_->getResult(0);
    auto select = builder_.create<llvm_ir::SelectOp>(location_, fits, result, Constant(type, 0));
    result.replaceAllUsesExcept(select, select);
  }

  void DefineCast() {
    const mlir::Type type = op_->getResult(0).getType();
    if (!type.isInteger(1)) {
      builder_.setInsertionPointAfter(op_);
      auto freeze = builder_.create<llvm_ir::FreezeOp>(location_, op_->getResult(0));
      op_->getResult(0).replaceAllUsesExcept(freeze, freeze);
      return;
    }
    // LLVM would take it for granted that the 32 bits it really makes are 0 or 1.
    const Value wide =
        builder_.create<llvm_ir::FPToSIOp>(location_, builder_.getI32Type(), op_->getOperand(0));
    const Value frozen = builder_.create<llvm_ir::FreezeOp>(location_, wide);
    Replace(builder_.create<llvm_ir::TruncOp>(location_, type, frozen));
  }

  mlir::LogicalResult ZeroRoom(llvm_ir::AllocaOp room) {
    llvm::APInt count;
    const mlir::Type element = room.getElemType();
    auto function = mlir::dyn_cast<llvm_ir::LLVMFuncOp>(op_->getParentOp());
    if (!function || op_->getBlock() != &function.getBody().front() || !element.isIntOrFloat() ||
        !mlir::matchPattern(room.getArraySize(), mlir::m_ConstantInt(&count))) {
      return op_->emitOpError("is not supported here: it would take stack in each iteration");
    }
    builder_.setInsertionPointAfter(op_);
    const Value bytes =
        Constant(builder_.getI64Type(),
                 BytesOfElement(element) * static_cast<int64_t>(count.getZExtValue()));
    builder_.create<llvm_ir::MemsetOp>(location_, room, Constant(builder_.getI8Type(), 0), bytes,
                                       /*isVolatile=*/false);
    return mlir::success();
  }

  mlir::Operation* op_;
  mlir::OpBuilder builder_;
  mlir::Location location_;
};

}  // namespace

mlir::LogicalResult DefineAll(mlir::ModuleOp module) {
  llvm::SmallVector<mlir::Operation*> ops;
  module->walk([&](mlir::Operation* op) { ops.push_back(op); });
  return mlir::failure(
      llvm::any_of(ops, [](mlir::Operation* op) { return failed(Definer(op).Run()); }));
}

}  // namespace lockstep::fragment
