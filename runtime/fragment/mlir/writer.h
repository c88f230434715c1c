// Writing code in the LLVM dialect.
#pragma once

#include <cstddef>

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace lockstep::fragment {

// Of what the guards need; at the place that builder() is at.
class Writer {
 public:
  Writer(mlir::MLIRContext* context, mlir::Location location)
      : builder_(context), location_(location) {
    pointer_ = mlir::LLVM::LLVMPointerType::get(context);
  }

  mlir::Value Constant(mlir::Type type, int64_t value) {
    return builder_.create<mlir::LLVM::ConstantOp>(location_, type, value);
  }
  mlir::Value Int32(int64_t value) { return Constant(builder_.getI32Type(), value); }
  mlir::Value At(mlir::Value pointer, size_t bytes) {
    return builder_.create<mlir::LLVM::GEPOp>(
        location_, pointer_, builder_.getI8Type(), pointer,
        llvm::ArrayRef<mlir::LLVM::GEPArg>{static_cast<int32_t>(bytes)});
  }
  mlir::Value LoadPointer(mlir::Value pointer, size_t bytes) {
    return builder_.create<mlir::LLVM::LoadOp>(location_, pointer_, At(pointer, bytes));
  }
  void Store(mlir::Value value, mlir::Value pointer, size_t bytes) {
    builder_.create<mlir::LLVM::StoreOp>(location_, value, At(pointer, bytes));
  }
  mlir::Value Compare(mlir::LLVM::ICmpPredicate predicate, mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::LLVM::ICmpOp>(location_, predicate, a, b);
  }
  // Calls the function that the context has at `bytes`.
  mlir::LLVM::CallOp CallContext(mlir::Value context, size_t bytes, mlir::Type result,
                                 llvm::ArrayRef<mlir::Value> arguments) {
    llvm::SmallVector<mlir::Value> operands = {LoadPointer(context, bytes), context};
    llvm::SmallVector<mlir::Type> types = {pointer_};
    for (const mlir::Value argument : arguments) {
      operands.push_back(argument);
      types.push_back(argument.getType());
    }
    return builder_.create<mlir::LLVM::CallOp>(
        location_, mlir::LLVM::LLVMFunctionType::get(result, types), operands);
  }

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Type pointer() const { return pointer_; }
  mlir::Location location() const { return location_; }
  void set_location(mlir::Location location) { location_ = location; }

 private:
  mlir::OpBuilder builder_;
  mlir::Location location_;
  mlir::Type pointer_;
};

}  // namespace lockstep::fragment
