#include "runtime/fragment/mlir/loops.h"

#include <optional>

#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "runtime/fragment/mlir/guards.h"

namespace lockstep::fragment {
namespace {

namespace linalg = mlir::linalg;
using mlir::Value;

// Of a body's loop; it stays with it through other passes.
constexpr char kDividedAttribute[] = "lockstep.divided";

// Operations that are worth another thread: about a hundred microseconds.
constexpr double kWorkForThreads = 1 << 18;
// A loop of fewer iterations is not divided, if that is known.
constexpr int64_t kFewIterations = 16;

// Operations of one iteration; one of math counts for several.
double WorkOfIteration(mlir::Block& body) {
  constexpr double kOfMath = 16;
  double work = 0;
  for (mlir::Operation& op : body)
    work += op.getName().getDialectNamespace() == "math" ? kOfMath : 1;
  return work;
}

// The first loop whose iterations write to elements of their own, and are not known to be few.
std::optional<unsigned> LoopToDivide(linalg::LinalgOp op) {
  const llvm::SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  const llvm::SmallVector<mlir::utils::IteratorType> iterators = op.getIteratorTypesArray();
  for (unsigned loop = 0; loop < iterators.size(); ++loop) {
    if (iterators[loop] != mlir::utils::IteratorType::parallel) continue;
    if (!mlir::ShapedType::isDynamic(ranges[loop]) && ranges[loop] < kFewIterations) continue;
    const bool writes_apart = llvm::all_of(op.getDpsInitsMutable(), [&](mlir::OpOperand& result) {
      const mlir::AffineMap map = op.getMatchingIndexingMap(&result);
      return map.isProjectedPermutation() && map.isFunctionOfDim(loop);
    });
    if (writes_apart) return loop;
  }
  return std::nullopt;
}

// What memory a memref is of; null where that is not known.
Value MemoryOf(Value memref) {
  while (true) {
    if (const auto argument = mlir::dyn_cast<mlir::BlockArgument>(memref)) {
      return mlir::isa<mlir::func::FuncOp>(argument.getOwner()->getParentOp()) ? memref : Value();
    }
    mlir::Operation* const op = memref.getDefiningOp();
    if (mlir::isa<mlir::memref::AllocOp, mlir::memref::AllocaOp, mlir::memref::GetGlobalOp>(op))
      return memref;
    auto view = mlir::dyn_cast<mlir::ViewLikeOpInterface>(op);
    if (!view) return {};
    memref = view.getViewSource();
  }
}

// For each memref among the values, whether no other of them is of its memory. Where one may be of
// anything, none is known to be.
llvm::SmallVector<bool> FindApart(llvm::ArrayRef<Value> values) {
  llvm::SmallVector<Value> memories;
  for (const Value value : values) {
    if (mlir::isa<mlir::MemRefType>(value.getType())) memories.push_back(MemoryOf(value));
  }
  llvm::SmallVector<bool> apart;
  const bool all_known = !llvm::is_contained(memories, Value());
  for (const Value memory : memories)
    apart.push_back(all_known && llvm::count(memories, memory) == 1);
  return apart;
}

// Makes one loop nest a body.
class Outliner {
 public:
  Outliner(mlir::ModuleOp module, mlir::Operation* nest, mlir::scf::ForOp divided, int number)
      : module_(module),
        nest_(nest),
        divided_(divided),
        location_(nest->getLoc()),
        number_(std::to_string(number)) {}

  void Outline(llvm::ArrayRef<Value> extents, double work) {
    const Value count = divided_.getUpperBound();
    const llvm::SmallVector<Value> used = UsedValues();
    llvm::SmallVector<mlir::Type> types(2, count.getType());
    for (const Value value : used) types.push_back(value.getType());
    mlir::OpBuilder builder(nest_);
    Call(builder, count, used,
         ProductIsAtLeast(builder, location_, extents, kWorkForThreads / work));
    MakeBody(used, types);
  }

 private:
  // That come from outside of the nest; without constants, which become the body's own.
  llvm::SmallVector<Value> UsedValues() {
    llvm::SetVector<Value> used;
    nest_->walk([&](mlir::Operation* op) {
      for (Value operand : op->getOperands()) {
        if (!nest_->isAncestor(operand.getParentBlock()->getParentOp())) used.insert(operand);
      }
    });
    llvm::SmallVector<Value> values;
    for (const Value value : used) {
      mlir::Operation* const op = value.getDefiningOp();
      if (op != nullptr && op->hasTrait<mlir::OpTrait::ConstantLike>()) {
        constants_.push_back(value);
      } else {
        values.push_back(value);
      }
    }
    return values;
  }

  void Call(mlir::OpBuilder& builder, Value count, llvm::ArrayRef<Value> used, Value is_much) {
    llvm::SmallVector<Value> operands = {builder.create<mlir::arith::ConstantIndexOp>(location_, 0),
                                         count};
    operands.append(used.begin(), used.end());
    auto choice = builder.create<mlir::scf::IfOp>(location_, is_much, /*withElseRegion=*/true);
    builder.setInsertionPointToStart(&choice.getThenRegion().front());
    CallPlaceholder(builder, location_, (kThreadsPrefix + number_).c_str(), {}, operands);
    builder.setInsertionPointToStart(&choice.getElseRegion().front());
    builder.create<mlir::func::CallOp>(location_, kBodyPrefix + number_, mlir::TypeRange(),
                                       operands);
  }

  void MakeBody(llvm::ArrayRef<Value> used, llvm::ArrayRef<mlir::Type> types) {
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(module_.getBody());
    auto body = builder.create<mlir::func::FuncOp>(location_, kBodyPrefix + number_,
                                                   builder.getFunctionType(types, {}));
    body.setPrivate();
    body->setAttr(kApartAttribute, builder.getDenseBoolArrayAttr(FindApart(used)));
    mlir::Block* const block = body.addEntryBlock();
    builder.setInsertionPointToStart(block);
    auto end = builder.create<mlir::func::ReturnOp>(location_);
    nest_->moveBefore(end);
    builder.setInsertionPoint(nest_);
    const auto replace = [&](Value outer, Value inner) {
      outer.replaceUsesWithIf(
          inner, [&](mlir::OpOperand& use) { return nest_->isAncestor(use.getOwner()); });
    };
    for (size_t i = 0; i < used.size(); ++i) replace(used[i], block->getArgument(i + 2));
    for (const Value constant : constants_)
      replace(constant, builder.clone(*constant.getDefiningOp())->getResult(0));
    divided_.setLowerBound(block->getArgument(0));
    divided_.setUpperBound(block->getArgument(1));
    divided_->setAttr(kDividedAttribute, builder.getUnitAttr());
  }

  mlir::ModuleOp module_;
  mlir::Operation* const nest_;
  mlir::scf::ForOp divided_;
  const mlir::Location location_;
  const std::string number_;
  llvm::SmallVector<Value> constants_;
};

// How large a nest of loops is, if its loops are as linalg makes them.
bool IsWorthDividing(llvm::ArrayRef<int64_t> ranges, double work) {
  for (const int64_t range : ranges) {
    if (mlir::ShapedType::isDynamic(range)) return true;
    work *= static_cast<double>(range);
  }
  return work >= kWorkForThreads;
}

}  // namespace

Value ProductIsAtLeast(mlir::OpBuilder& builder, mlir::Location location,
                       llvm::ArrayRef<Value> extents, double least) {
  const mlir::FloatType f64 = builder.getF64Type();
  Value product = builder.create<mlir::arith::ConstantFloatOp>(location, llvm::APFloat(1.0), f64);
  for (const Value extent : extents) {
    const Value integer =
        builder.create<mlir::arith::IndexCastOp>(location, builder.getI64Type(), extent);
    const Value factor = builder.create<mlir::arith::SIToFPOp>(location, f64, integer);
    product = builder.create<mlir::arith::MulFOp>(location, product, factor);
  }
  const Value limit =
      builder.create<mlir::arith::ConstantFloatOp>(location, llvm::APFloat(least), f64);
  return builder.create<mlir::arith::CmpFOp>(location, mlir::arith::CmpFPredicate::OGE, product,
                                             limit);
}

mlir::LogicalResult MakeLoops(mlir::ModuleOp module, mlir::func::FuncOp function) {
  llvm::SmallVector<linalg::LinalgOp> ops;
  module->walk([&](linalg::LinalgOp op) { ops.push_back(op); });
  mlir::IRRewriter rewriter(module.getContext());
  int bodies = 0;
  for (linalg::LinalgOp op : ops) {
    std::optional<unsigned> divided = LoopToDivide(op);
    const double work = WorkOfIteration(op->getRegion(0).front());
    if (!IsWorthDividing(op.getStaticLoopRanges(), work) ||
        op->getParentOfType<mlir::func::FuncOp>() != function ||
        op->getParentOfType<mlir::scf::ForallOp>() || op->getParentOfType<mlir::scf::ParallelOp>())
      divided.reset();
    rewriter.setInsertionPoint(op);
    const mlir::FailureOr<linalg::LinalgLoops> loops = linalg::linalgOpToLoops(rewriter, op);
    if (failed(loops)) return op->emitOpError("is not supported");
    rewriter.eraseOp(op);
    if (!divided.has_value()) continue;
    llvm::SmallVector<Value> extents;
    for (mlir::Operation* loop : *loops)
      extents.push_back(mlir::cast<mlir::scf::ForOp>(loop).getUpperBound());
    Outliner(module, loops->front(), mlir::cast<mlir::scf::ForOp>((*loops)[*divided]), bodies++)
        .Outline(extents, work);
  }
  return mlir::success();
}

mlir::Operation* DividedLoop(mlir::func::FuncOp body) {
  mlir::Operation* divided = nullptr;
  body->walk([&](mlir::Operation* op) {
    if (op->hasAttr(kDividedAttribute)) divided = op;
  });
  return divided;
}

}  // namespace lockstep::fragment
