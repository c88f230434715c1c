#include "runtime/fragment/mlir/guards.h"

#include <cstddef>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/fragment/abi.h"
#include "runtime/fragment/mlir/boundary.h"
#include "runtime/fragment/mlir/loops.h"
#include "runtime/fragment/mlir/sizes.h"
#include "runtime/fragment/mlir/threads.h"
#include "runtime/fragment/mlir/writer.h"

namespace lockstep::fragment {
namespace {

namespace llvm_ir = mlir::LLVM;
using mlir::Value;

constexpr char kAllocate[] = "lockstep.allocate";

int32_t CodeOf(llvm::StringRef message) {
  if (message == kResultSizeMessage) return LOCKSTEP_FRAGMENT_RESULT_SIZE;
  if (message == kNegativeSizeMessage) return LOCKSTEP_FRAGMENT_NEGATIVE_SIZE;
  if (message == kTooLargeMessage) return LOCKSTEP_FRAGMENT_OUT_OF_MEMORY;
  return LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS;
}

// Adds ptr @lockstep.allocate(context, bytes): a function, because LLVM takes what it returns for
// memory that nothing else points to.
llvm_ir::LLVMFuncOp AddAllocate(mlir::ModuleOp module) {
  Writer write(module.getContext(), module.getLoc());
  mlir::OpBuilder& builder = write.builder();
  builder.setInsertionPointToEnd(module.getBody());
  const mlir::Type i64 = builder.getI64Type();
  auto allocate = builder.create<llvm_ir::LLVMFuncOp>(
      module.getLoc(), kAllocate,
      llvm_ir::LLVMFunctionType::get(write.pointer(), {write.pointer(), i64}),
      llvm_ir::Linkage::Internal);
  allocate.setResultAttrs(
      0, builder.getDictionaryAttr(builder.getNamedAttr(llvm_ir::LLVMDialect::getNoAliasAttrName(),
                                                        builder.getUnitAttr())));
  allocate.setPassthroughAttr(builder.getArrayAttr({builder.getStringAttr("noinline")}));
  builder.setInsertionPointToStart(allocate.addEntryBlock(builder));
  const Value bytes = builder.create<llvm_ir::UMaxOp>(module.getLoc(), allocate.getArgument(1),
                                                      write.Constant(i64, 1));
  auto call =
      write.CallContext(allocate.getArgument(0), offsetof(LockstepFragmentContext, allocate),
                        write.pointer(), {bytes});
  builder.create<llvm_ir::ReturnOp>(module.getLoc(), call.getResult());
  return allocate;
}

// Guards one function.
class Guard {
 public:
  // `apart`: for each memref of the function's arguments, whether its memory is no other's.
  Guard(llvm_ir::LLVMFuncOp function, llvm::ArrayRef<bool> apart, llvm_ir::LLVMFuncOp allocate,
        const OperationNames& names)
      : function_(function),
        apart_(apart),
        allocate_(allocate),
        names_(names),
        write_(function.getContext(), function.getLoc()) {}

  mlir::LogicalResult Run() {
    AddContext();
    AddFailureBlock();
    llvm::SmallVector<mlir::Operation*> ops;
    function_->walk([&](mlir::Operation* op) { ops.push_back(op); });
    for (mlir::Operation* op : ops) {
      write_.set_location(op->getLoc());
      write_.builder().setInsertionPoint(op);
      if (auto call = mlir::dyn_cast<llvm_ir::CallOp>(op)) {
        Expand(call);
      } else if (mlir::isa<llvm_ir::SDivOp, llvm_ir::SRemOp>(op)) {
        CheckDivision(op, /*is_signed=*/true);
      } else if (mlir::isa<llvm_ir::UDivOp, llvm_ir::URemOp>(op)) {
        CheckDivision(op, /*is_signed=*/false);
      } else if (mlir::isa<llvm_ir::ReturnOp>(op) && op->getBlock() != failure_) {
        op->setOperands(write_.Int32(LOCKSTEP_FRAGMENT_OK));
      }
    }
    return mlir::success();
  }

 private:
  void AddContext() {
    const llvm_ir::LLVMFunctionType type = function_.getFunctionType();
    llvm::SmallVector<mlir::Type> parameters = {write_.pointer()};
    parameters.append(type.getParams().begin(), type.getParams().end());
    function_.setFunctionType(
        llvm_ir::LLVMFunctionType::get(write_.builder().getI32Type(), parameters));
    mlir::Block& entry = function_.getBody().front();
    context_ = entry.insertArgument(0u, write_.pointer(), function_.getLoc());
    function_.removeArgAttrsAttr();
    unsigned pointers = 0;  // a memref has two
    for (unsigned i = 1; i < parameters.size(); ++i) {
      if (parameters[i] == write_.pointer() && apart_[pointers++ / 2]) {
        function_.setArgAttr(i, llvm_ir::LLVMDialect::getNoAliasAttrName(),
                             write_.builder().getUnitAttr());
      }
    }
    write_.builder().setInsertionPointToStart(&entry);
    abort_ = write_.LoadPointer(context_, offsetof(LockstepFragmentContext, abort));
  }

  // ^failure(code, operation, line, column): writes the place, and returns the code.
  void AddFailureBlock() {
    mlir::OpBuilder& builder = write_.builder();
    const mlir::Type i32 = builder.getI32Type();
    const mlir::Location location = function_.getLoc();
    failure_ = builder.createBlock(&function_.getBody(), function_.getBody().end(),
                                   {i32, write_.pointer(), i32, i32},
                                   {location, location, location, location});
    constexpr size_t kError = offsetof(LockstepFragmentContext, error);
    write_.Store(failure_->getArgument(1), context_,
                 kError + offsetof(LockstepFragmentError, operation));
    write_.Store(failure_->getArgument(2), context_,
                 kError + offsetof(LockstepFragmentError, line));
    write_.Store(failure_->getArgument(3), context_,
                 kError + offsetof(LockstepFragmentError, column));
    builder.create<llvm_ir::ReturnOp>(location, failure_->getArgument(0));
  }

  // Goes on in front of `op` if `condition` holds, and else to `otherwise`.
  void Branch(mlir::Operation* op, Value condition, mlir::Block* otherwise,
              llvm::ArrayRef<Value> operands) {
    mlir::OpBuilder& builder = write_.builder();
    mlir::Block* block = op->getBlock();
    mlir::Block* rest = block->splitBlock(op);
    builder.setInsertionPointToEnd(block);
    builder.create<llvm_ir::CondBrOp>(op->getLoc(), condition, rest, mlir::ValueRange(), otherwise,
                                      operands, std::pair<uint32_t, uint32_t>(1 << 20, 1));
    builder.setInsertionPoint(op);
  }

  void Require(mlir::Operation* op, Value condition, Value code) {
    const Place place = PlaceOf(op->getLoc());
    Branch(op, condition, failure_,
           {code, NameAt(place), write_.Int32(place.line), write_.Int32(place.column)});
  }
  void Require(mlir::Operation* op, Value condition, int32_t code) {
    Require(op, condition, write_.Int32(code));
  }

  // A text in the object: the operation that the fragment has at `place`.
  Value NameAt(const Place& place) {
    const auto known = names_.find(place);
    const std::string name = known == names_.end() ? "" : known->second;
    const std::string symbol = "lockstep.name." + (name.empty() ? "unknown" : name);
    auto module = function_->getParentOfType<mlir::ModuleOp>();
    if (!module.lookupSymbol(symbol)) {
      mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(module.getBody());
      const std::string text = name + '\0';
      builder.create<llvm_ir::GlobalOp>(
          module.getLoc(), llvm_ir::LLVMArrayType::get(builder.getI8Type(), text.size()),
          /*isConstant=*/true, llvm_ir::Linkage::Internal, symbol, builder.getStringAttr(text));
    }
    return write_.builder().create<llvm_ir::AddressOfOp>(write_.location(), write_.pointer(),
                                                         symbol);
  }

  void Expand(llvm_ir::CallOp call) {
    const llvm::StringRef callee = call.getCallee().value_or("");
    if (callee == kPoll) {
      auto flag = write_.builder().create<llvm_ir::LoadOp>(call.getLoc(),
                                                           write_.builder().getI32Type(), abort_);
      flag.setVolatile_(true);
      Require(call, write_.Compare(llvm_ir::ICmpPredicate::eq, flag, write_.Int32(0)),
              LOCKSTEP_FRAGMENT_ABORTED);
    } else if (callee == kCheck) {
      Require(call, call.getOperand(0), call.getOperand(1));
    } else if (callee == "malloc") {
      const Value memory =
          write_.builder()
              .create<llvm_ir::CallOp>(call.getLoc(), allocate_,
                                       mlir::ValueRange{context_, call.getOperand(0)})
              .getResult();
      const Value null = write_.builder().create<llvm_ir::ZeroOp>(call.getLoc(), write_.pointer());
      Require(call, write_.Compare(llvm_ir::ICmpPredicate::ne, memory, null),
              LOCKSTEP_FRAGMENT_OUT_OF_MEMORY);
      call.getResult().replaceAllUsesWith(memory);
    } else if (callee == "free") {
      write_.CallContext(context_, offsetof(LockstepFragmentContext, release),
                         llvm_ir::LLVMVoidType::get(call.getContext()), {call.getOperand(0)});
    } else if (callee == kHasMatmul) {
      const Value null = write_.builder().create<llvm_ir::ZeroOp>(call.getLoc(), write_.pointer());
      const Value matmul = write_.LoadPointer(context_, offsetof(LockstepFragmentContext, matmul));
      call.getResult().replaceAllUsesWith(write_.Compare(llvm_ir::ICmpPredicate::ne, matmul, null));
    } else if (callee == kMatmul) {
      ExpandMatmul(call);
    } else if (callee.starts_with(kBodyPrefix) || callee.starts_with(kThreadsPrefix)) {
      ExpandBody(call);
    } else {
      return;
    }
    call.erase();
  }

  void ExpandMatmul(llvm_ir::CallOp call) {
    using Matmul = LockstepFragmentMatmul;
    // In the order of kMatmul's operands.
    constexpr size_t kFields[] = {offsetof(Matmul, is_double),
                                  offsetof(Matmul, a_transposed),
                                  offsetof(Matmul, b_transposed),
                                  offsetof(Matmul, batches),
                                  offsetof(Matmul, m),
                                  offsetof(Matmul, n),
                                  offsetof(Matmul, k),
                                  offsetof(Matmul, a),
                                  offsetof(Matmul, b),
                                  offsetof(Matmul, c),
                                  offsetof(Matmul, a_row),
                                  offsetof(Matmul, b_row),
                                  offsetof(Matmul, c_row),
                                  offsetof(Matmul, a_batch),
                                  offsetof(Matmul, b_batch),
                                  offsetof(Matmul, c_batch)};
    if (!matmul_) {
      mlir::OpBuilder::InsertionGuard back(write_.builder());
      write_.builder().setInsertionPointToStart(&function_.getBody().front());
      matmul_ = write_.builder().create<llvm_ir::AllocaOp>(
          call.getLoc(), write_.pointer(), write_.builder().getI8Type(),
          write_.Constant(write_.builder().getI64Type(), sizeof(Matmul)), alignof(Matmul));
    }
    for (size_t i = 0; i < std::size(kFields); ++i)
      write_.Store(call.getOperand(i), matmul_, kFields[i]);
    const Value code = write_
                           .CallContext(context_, offsetof(LockstepFragmentContext, matmul),
                                        write_.builder().getI32Type(), {matmul_})
                           .getResult();
    Require(call,
            write_.Compare(llvm_ir::ICmpPredicate::eq, code, write_.Int32(LOCKSTEP_FRAGMENT_OK)),
            code);
  }

  // What it returns is returned: it has written the place.
  void ExpandBody(llvm_ir::CallOp call) {
    llvm::SmallVector<Value> operands = {context_};
    operands.append(call.getOperands().begin(), call.getOperands().end());
    const Value code = write_.builder()
                           .create<llvm_ir::CallOp>(call.getLoc(), write_.builder().getI32Type(),
                                                    *call.getCallee(), operands)
                           .getResult();
    if (return_ == nullptr) {
      mlir::OpBuilder::InsertionGuard back(write_.builder());
      return_ = write_.builder().createBlock(&function_.getBody(), function_.getBody().end(),
                                             {code.getType()}, {call.getLoc()});
      write_.builder().create<llvm_ir::ReturnOp>(call.getLoc(), return_->getArgument(0));
    }
    Branch(call,
           write_.Compare(llvm_ir::ICmpPredicate::eq, code, write_.Int32(LOCKSTEP_FRAGMENT_OK)),
           return_, {code});
  }

  void CheckDivision(mlir::Operation* op, bool is_signed) {
    const Value dividend = op->getOperand(0);
    const Value divisor = op->getOperand(1);
    const mlir::Type type = divisor.getType();
    if (!mlir::isa<mlir::IntegerType>(type)) return;
    std::optional<llvm::APInt> constant;
    if (auto known = divisor.getDefiningOp<llvm_ir::ConstantOp>()) {
      if (const auto value = mlir::dyn_cast<mlir::IntegerAttr>(known.getValue()))
        constant = value.getValue();
    }
    if (!constant.has_value() || constant->isZero()) {
      Require(op, write_.Compare(llvm_ir::ICmpPredicate::ne, divisor, write_.Constant(type, 0)),
              LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO);
    }
    if (!is_signed || (constant.has_value() && !constant->isAllOnes())) return;
    const auto integer = mlir::cast<mlir::IntegerType>(type);
    const Value least = write_.builder().create<llvm_ir::ConstantOp>(
        op->getLoc(), type,
        mlir::IntegerAttr::get(type, llvm::APInt::getSignedMinValue(integer.getWidth())));
    const Value fits = write_.builder().create<llvm_ir::OrOp>(
        op->getLoc(), write_.Compare(llvm_ir::ICmpPredicate::ne, dividend, least),
        write_.Compare(llvm_ir::ICmpPredicate::ne, divisor, write_.Constant(type, -1)));
    Require(op, fits, LOCKSTEP_FRAGMENT_DIVISION_OVERFLOW);
  }

  llvm_ir::LLVMFuncOp function_;
  llvm::ArrayRef<bool> apart_;
  llvm_ir::LLVMFuncOp allocate_;
  const OperationNames& names_;
  Writer write_;
  Value context_;
  Value abort_;
  Value matmul_;  // room for a LockstepFragmentMatmul, if there is a product
  mlir::Block* failure_ = nullptr;
  mlir::Block* return_ = nullptr;  // of a code that a body has returned
};

// Guards the bodies, which the compute function calls, and writes the calls of threads.
mlir::LogicalResult GuardBodies(mlir::ModuleOp module, llvm_ir::LLVMFuncOp allocate,
                                const OperationNames& names) {
  for (auto body : llvm::to_vector(module.getOps<llvm_ir::LLVMFuncOp>())) {
    const auto apart = body->getAttrOfType<mlir::DenseBoolArrayAttr>(kApartAttribute);
    if (!apart) continue;
    if (failed(Guard(body, apart.asArrayRef(), allocate, names).Run())) return mlir::failure();
    // One copy of its code: a second one might round otherwise.
    body.setPassthroughAttr(mlir::ArrayAttr::get(
        body.getContext(), {mlir::StringAttr::get(body.getContext(), "noinline")}));
    const auto number = body.getSymName().drop_front(llvm::StringRef(kBodyPrefix).size());
    const auto grain = body->getAttrOfType<mlir::IntegerAttr>(kGrainAttribute);
    auto threads = module.lookupSymbol<llvm_ir::LLVMFuncOp>((kThreadsPrefix + number).str());
    // Of constant sizes it may have been found that no thread is worth it.
    if (threads) WriteThreads(body, threads, grain.getInt());
    body->removeAttr(kApartAttribute);
    body->removeAttr(kGrainAttribute);
  }
  return mlir::success();
}

}  // namespace

Value CallPlaceholder(mlir::OpBuilder& builder, mlir::Location location, const char* name,
                      mlir::TypeRange results, mlir::ValueRange arguments) {
  auto module = builder.getBlock()->getParentOp()->getParentOfType<mlir::ModuleOp>();
  if (!module.lookupSymbol(name)) {
    mlir::OpBuilder top = mlir::OpBuilder::atBlockEnd(module.getBody());
    auto declaration = top.create<mlir::func::FuncOp>(
        module.getLoc(), name, top.getFunctionType(arguments.getTypes(), results));
    declaration.setPrivate();
  }
  auto call = builder.create<mlir::func::CallOp>(location, name, results, arguments);
  return results.empty() ? Value() : call.getResult(0);
}

void ReplaceAsserts(mlir::ModuleOp module) {
  llvm::SmallVector<mlir::cf::AssertOp> asserts;
  module->walk([&](mlir::cf::AssertOp op) { asserts.push_back(op); });
  for (mlir::cf::AssertOp op : asserts) {
    mlir::OpBuilder builder(op);
    const Value code =
        builder.create<mlir::arith::ConstantIntOp>(op.getLoc(), CodeOf(op.getMsg()), 32);
    CallPlaceholder(builder, op.getLoc(), kCheck, {}, {op.getArg(), code});
    op.erase();
  }
}

mlir::LogicalResult AddGuards(mlir::ModuleOp module, const OperationNames& names, Errors& errors) {
  llvm_ir::LLVMFuncOp allocate = AddAllocate(module);
  if (failed(GuardBodies(module, allocate, names))) return mlir::failure();
  for (const char* name : {kComputeFunction, kSizesFunction}) {
    auto function = module.lookupSymbol<llvm_ir::LLVMFuncOp>(name);
    // The caller promises that only results are written to, and overlap nothing.
    const llvm::SmallVector<bool> apart(function.getNumArguments(), true);
    if (failed(Guard(function, apart, allocate, names).Run())) return mlir::failure();
  }
  // Bodies, and a helper of the deallocation's; entries come later.
  for (auto function : module.getOps<llvm_ir::LLVMFuncOp>()) {
    if (!function.isExternal()) function.setLinkage(llvm_ir::Linkage::Internal);
  }
  for (const char* name : {kPoll, kCheck, kHasMatmul, kMatmul, "malloc", "free"}) {
    auto declaration = module.lookupSymbol<llvm_ir::LLVMFuncOp>(name);
    if (!declaration) continue;
    if (!mlir::SymbolTable::symbolKnownUseEmpty(declaration, module)) {
      return errors.Refuse(declaration, StatusCode::kInternal,
                           std::string(name) + " is called where it cannot be");
    }
    declaration.erase();
  }
  return mlir::success();
}

}  // namespace lockstep::fragment
