#include "runtime/fragment/mlir/polls.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "runtime/fragment/mlir/guards.h"
#include "runtime/fragment/mlir/loops.h"

namespace lockstep::fragment {
namespace {

// A body that does so much is worth a poll of its own; less is done in chunks that do about so
// much.
constexpr int64_t kWorkWorthAPoll = 1 << 15;

void PollAtBegin(mlir::Block& block, mlir::Location location) {
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&block);
  CallPlaceholder(builder, location, kPoll, {}, {});
}

// Of a loop that was cut.
constexpr char kChunkAttribute[] = "lockstep.chunk";

// No index may wrap around: the loop would begin once more, and this time without an end.
constexpr int64_t kMaxEnd = int64_t{1} << 62;
void CheckEnds(mlir::OpBuilder& builder, mlir::scf::ForOp loop) {
  const mlir::Location location = loop.getLoc();
  const auto number = [&](int64_t value) {
    return builder.create<mlir::arith::ConstantIndexOp>(location, value);
  };
  const mlir::Value begins = builder.create<mlir::arith::CmpIOp>(
      location, mlir::arith::CmpIPredicate::sge, loop.getLowerBound(), number(-kMaxEnd));
  const mlir::Value ends = builder.create<mlir::arith::CmpIOp>(
      location, mlir::arith::CmpIPredicate::sle, loop.getUpperBound(), number(kMaxEnd));
  const mlir::Value both = builder.create<mlir::arith::AndIOp>(location, begins, ends);
  builder.create<mlir::cf::AssertOp>(location, both, kOutOfBoundsMessage);
}

// for (i = begin; i < end; i += step * chunk) { poll; for (j = i; j < min(i + step * chunk, end); j
// += step) body }
void CutIntoChunks(mlir::scf::ForOp loop, int64_t step, int64_t chunk) {
  mlir::OpBuilder builder(loop);
  const mlir::Location location = loop.getLoc();
  CheckEnds(builder, loop);
  const mlir::Value stride = builder.create<mlir::arith::ConstantIndexOp>(location, step * chunk);
  auto outer = builder.create<mlir::scf::ForOp>(location, loop.getLowerBound(),
                                                loop.getUpperBound(), stride, loop.getInitArgs());
  loop.replaceAllUsesWith(outer.getResults());
  builder.setInsertionPointToStart(outer.getBody());
  CallPlaceholder(builder, location, kPoll, {}, {});
  const mlir::Value left =
      builder.create<mlir::arith::SubIOp>(location, loop.getUpperBound(), outer.getInductionVar());
  const mlir::Value length = builder.create<mlir::arith::MinSIOp>(location, left, stride);
  const mlir::Value end =
      builder.create<mlir::arith::AddIOp>(location, outer.getInductionVar(), length);
  loop->moveBefore(outer.getBody(), builder.getInsertionPoint());
  loop->setAttr(kChunkAttribute, builder.getI64IntegerAttr(chunk));
  loop.setLowerBound(outer.getInductionVar());
  loop.setUpperBound(end);
  loop.getInitArgsMutable().assign(outer.getRegionIterArgs());
  // Without values there is a terminator already.
  if (outer.getNumResults() > 0) {
    builder.setInsertionPointToEnd(outer.getBody());
    builder.create<mlir::scf::YieldOp>(location, loop.getResults());
  }
}

int64_t WorkOf(mlir::Block& block);

// How much longer than the others an operation takes at worst: some functions are computed in some
// ten nanoseconds, and fmod subtracts once for each bit that its operands lie apart.
int64_t WorkOfOne(mlir::Operation* op) {
  if (mlir::isa<mlir::arith::RemFOp>(op)) return 512;
  return op->getName().getDialectNamespace() == "math" ? 8 : 1;
}

// How much an operation may do without a poll.
int64_t WorkOf(mlir::Operation* op) {
  if (auto loop = mlir::dyn_cast<mlir::scf::ForOp>(op)) {
    const int64_t work = WorkOf(*loop.getBody());
    const std::optional<int64_t> begin = mlir::getConstantIntValue(loop.getLowerBound());
    const std::optional<int64_t> end = mlir::getConstantIntValue(loop.getUpperBound());
    const std::optional<int64_t> step = mlir::getConstantIntValue(loop.getStep());
    const bool is_index = loop.getInductionVar().getType().isIndex();
    const bool steps = step.has_value() && *step > 0 && *step < (1 << 20);
    if (begin.has_value() && end.has_value() && steps && *begin >= 0 && *end <= kMaxEnd) {
      const int64_t iterations = *end <= *begin ? 0 : (*end - *begin - 1) / *step + 1;
      if (iterations <= kWorkBetweenPolls / work) return iterations * work;
    }
    if (work >= kWorkWorthAPoll || !steps || !is_index) {
      PollAtBegin(*loop.getBody(), loop.getLoc());
      return work;
    }
    CutIntoChunks(loop, *step, kWorkWorthAPoll / work + 1);
    return kWorkWorthAPoll;
  }
  if (auto loop = mlir::dyn_cast<mlir::scf::WhileOp>(op)) {
    // PollWhileLoops() has put a poll there.
    return WorkOf(*loop.getBeforeBody()) + WorkOf(*loop.getAfterBody());
  }
  if (auto loop = mlir::dyn_cast<mlir::scf::ParallelOp>(op)) {
    const int64_t work = WorkOf(*loop.getBody());
    PollAtBegin(*loop.getBody(), loop.getLoc());
    return work;
  }
  int64_t work = WorkOfOne(op);
  for (mlir::Region& region : op->getRegions()) {
    for (mlir::Block& block : region) work += WorkOf(block);
  }
  return work;
}

int64_t WorkOf(mlir::Block& block) {
  int64_t most = 0;
  int64_t work = 1;
  for (mlir::Operation& op : llvm::make_early_inc_range(block)) {
    mlir::Operation* const previous = op.getPrevNode();
    const int64_t more = WorkOf(&op);
    if (work + more > kWorkBetweenPolls) {
      // Before `op`, which is somewhere else now if it was cut.
      if (previous == nullptr) {
        PollAtBegin(block, op.getLoc());
      } else {
        mlir::OpBuilder builder(op.getContext());
        builder.setInsertionPointAfter(previous);
        CallPlaceholder(builder, op.getLoc(), kPoll, {}, {});
      }
      most = std::max(most, work);
      work = 0;
    }
    work += more;
  }
  return std::max(most, work);
}

}  // namespace

void PollWhileLoops(mlir::func::FuncOp function) {
  llvm::SmallVector<mlir::scf::WhileOp> loops;
  function->walk([&](mlir::scf::WhileOp loop) { loops.push_back(loop); });
  for (mlir::scf::WhileOp loop : loops) PollAtBegin(*loop.getBeforeBody(), loop.getLoc());
}

void AddPolls(mlir::func::FuncOp function) {
  WorkOf(function.getBody().front());
  if (!function->hasAttr(kApartAttribute)) return;
  mlir::Operation* const divided = DividedLoop(function);
  const auto chunk =
      divided != nullptr ? divided->getAttrOfType<mlir::IntegerAttr>(kChunkAttribute) : nullptr;
  function->setAttr(kGrainAttribute,
                    chunk ? chunk : mlir::Builder(function.getContext()).getI64IntegerAttr(1));
}

}  // namespace lockstep::fragment
