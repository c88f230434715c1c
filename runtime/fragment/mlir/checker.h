// Writes checks in front of one operation on buffers.
#pragma once

#include <cstdint>

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "runtime/fragment/mlir/guards.h"

namespace lockstep::fragment {

class Checker {
 public:
  using Predicate = mlir::arith::CmpIPredicate;

  explicit Checker(mlir::Operation* op) : builder_(op), location_(op->getLoc()) {}

  mlir::Value Index(int64_t value) {
    return builder_.create<mlir::arith::ConstantIndexOp>(location_, value);
  }
  mlir::Value Extent(mlir::Value memref, int64_t dimension) {
    const auto type = mlir::cast<mlir::MemRefType>(memref.getType());
    if (!type.isDynamicDim(dimension)) return Index(type.getDimSize(dimension));
    return builder_.create<mlir::memref::DimOp>(location_, memref, dimension);
  }
  mlir::Value Materialize(mlir::OpFoldResult value) {
    return mlir::getValueOrCreateConstantIndexOp(builder_, location_, value);
  }

  mlir::Value Compare(Predicate predicate, mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::CmpIOp>(location_, predicate, a, b);
  }
  mlir::Value Or(mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::OrIOp>(location_, a, b);
  }
  mlir::Value Add(mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::AddIOp>(location_, a, b);
  }
  mlir::Value Sub(mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::SubIOp>(location_, a, b);
  }
  mlir::Value Mul(mlir::Value a, mlir::Value b) {
    return builder_.create<mlir::arith::MulIOp>(location_, a, b);
  }

  void Require(mlir::Value condition, const char* message) {
    builder_.create<mlir::cf::AssertOp>(location_, condition, message);
  }
  // 0 <= index < extent, in one comparison.
  void RequireInside(mlir::Value index, mlir::Value extent) {
    Require(Compare(Predicate::ult, index, extent), kOutOfBoundsMessage);
  }
  void RequireNotNegative(mlir::Value size) {
    Require(Compare(Predicate::sge, size, Index(0)), kNegativeSizeMessage);
  }
  // The product of two sizes that are not negative. Fails with `message` unless it is at most 2^62.
  mlir::Value RequiredProduct(mlir::Value a, mlir::Value b, const char* message) {
    auto product = builder_.create<mlir::arith::MulUIExtendedOp>(location_, a, b);
    Require(Compare(Predicate::eq, product.getHigh(), Index(0)), message);
    Require(Compare(Predicate::ule, product.getLow(), Index(int64_t{1} << 62)), message);
    return product.getLow();
  }

  mlir::OpBuilder& builder() { return builder_; }
  mlir::Location location() const { return location_; }

 private:
  mlir::OpBuilder builder_;
  mlir::Location location_;
};

}  // namespace lockstep::fragment
