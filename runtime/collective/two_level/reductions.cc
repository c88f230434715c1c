#include "runtime/collective/two_level/reductions.h"

#include <cstring>

#include "runtime/tensor/element.h"

namespace lockstep::collective::two_level {
namespace {

// What elements are while they are combined, where it is not what they are before and after: in two
// stages, neither a sum that wraps nor one that is rounded may come in between. Up to 65536 ranks.
DType WideOf(ReduceOp op, DType dtype) {
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  if (is_half) return op == ReduceOp::kMin || op == ReduceOp::kMax ? dtype : DType::kFloat32;
  if (op != ReduceOp::kAvg) return dtype;
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16:
      return DType::kInt32;
    case DType::kUInt8:
    case DType::kUInt16:
      return DType::kUInt32;
    case DType::kInt32:
      return DType::kInt64;
    case DType::kUInt32:
      return DType::kUInt64;
    default:
      return dtype;
  }
}

ReduceOp Summed(ReduceOp op) { return op == ReduceOp::kAvg ? ReduceOp::kSum : op; }

template <typename T>
void DivideAll(Buffer data, int by) {
  T* const elements = static_cast<T*>(data.data);
  for (size_t i = 0; i < data.count; ++i) elements[i] /= static_cast<T>(by);
}

// What is left to do once sums have been formed, in a dtype that WideOf() gives.
void Finish(ReduceOp op, Buffer data, int size) {
  if (op != ReduceOp::kAvg) return;
  switch (data.dtype) {
    case DType::kInt32:
      return DivideAll<int32_t>(data, size);
    case DType::kUInt32:
      return DivideAll<uint32_t>(data, size);
    case DType::kInt64:
      return DivideAll<int64_t>(data, size);
    case DType::kUInt64:
      return DivideAll<uint64_t>(data, size);
    case DType::kFloat64:
      return DivideAll<double>(data, size);
    default:
      return DivideAll<float>(data, size);
  }
}

}  // namespace

Reductions::Reductions(StageRunner& runner)
    : runner_(runner), layout_(runner.layout()), node_(runner.node()) {}

Status Reductions::ReduceInside(ConstBuffer send, Buffer mine, Counts counts, ReduceOp op,
                                Deadline deadline) {
  if (node_ != nullptr) {
    return runner_.Inside(node_->ReduceScatter(send, mine, counts, Summed(op), deadline));
  }
  if (send.data != mine.data && send.count > 0) {
    std::memcpy(mine.data, send.data, send.size_bytes());
  }
  return OkStatus();
}

Status Reductions::AllReduceStages(ConstBuffer send, Buffer recv, ReduceOp op,
                                   const Stages& stages) {
  const std::vector<Slice> slices = layout_.SlicesOf(send.count, SizeOf(send.dtype));
  const std::vector<int64_t> counts = layout_.LocalCountsOf(slices);
  const Slice own = layout_.OwnOf(slices);
  const Buffer mine = PartOf(recv, own);
  LOCKSTEP_RETURN_IF_ERROR(ReduceInside(send, mine, counts, op, stages.inside));
  const Status crossed = runner_.OnRail(
      layout_.local() == 0 || own.count > 0,
      [&](Communicator& rail) { return rail.AllReduce(mine, mine, Summed(op), stages.across); });
  Finish(op, mine, size());
  LOCKSTEP_RETURN_IF_ERROR(runner_.EndCrossing(crossed, stages));
  if (node_ == nullptr) return OkStatus();
  return runner_.Inside(node_->AllGather(mine, recv, counts, stages.after));
}

Status Reductions::ReduceStages(ConstBuffer send, Buffer recv, ReduceOp op, Rank root,
                                const Stages& stages) {
  const std::vector<Slice> slices = layout_.SlicesOf(send.count, SizeOf(send.dtype));
  const std::vector<int64_t> counts = layout_.LocalCountsOf(slices);
  const size_t count = layout_.OwnOf(slices).count;
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer mine,
                            runner_.Scratch(StageRunner::kSlice, count, send.dtype));
  LOCKSTEP_RETURN_IF_ERROR(ReduceInside(send, mine, counts, op, stages.inside));
  const Status crossed = runner_.OnRail(layout_.local() == 0 || count > 0, [&](Communicator& rail) {
    return rail.Reduce(mine, mine, Summed(op), layout_.NodeOf(root), stages.across);
  });
  Finish(op, mine, size());
  LOCKSTEP_RETURN_IF_ERROR(runner_.EndCrossing(crossed, stages));
  if (!layout_.IsNear(root)) return OkStatus();
  if (node_ != nullptr) {
    return runner_.Inside(node_->Gather(mine, recv, counts, layout_.LocalOf(root), stages.after));
  }
  if (count > 0) std::memcpy(recv.data, mine.data, mine.size_bytes());
  return OkStatus();
}

Status Reductions::ReduceScatterStages(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                                       const Stages& stages) {
  const RailPacking packing(layout_, counts, SizeOf(send.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer packed,
                            runner_.Scratch(StageRunner::kPacked, packing.total(), send.dtype));
  packing.Pack(send.data, packed.data);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Buffer slice,
      runner_.Scratch(StageRunner::kSlice, packing.RailSlice().count, send.dtype));
  LOCKSTEP_RETURN_IF_ERROR(ReduceInside(packed, slice, packing.PackedCounts(), op, stages.inside));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Buffer piece,
      runner_.Scratch(StageRunner::kPiece, layout_.OwnOf(packing.slices()).count, send.dtype));
  const Status crossed =
      runner_.OnRail(layout_.local() == 0 || slice.count > 0, [&](Communicator& rail) {
        return rail.ReduceScatter(slice, piece, packing.RailCounts(), Summed(op), stages.across);
      });
  Finish(op, piece, size());
  LOCKSTEP_RETURN_IF_ERROR(runner_.EndCrossing(crossed, stages));
  return runner_.HandOut(piece, packing, recv, stages.after);
}

Status Reductions::AllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages,
                            runner_.Begin({.kind = Kind::kAllReduce, .dtype = send.dtype, .op = op},
                                          send.count, {}, deadline));
  const DType wide_dtype = WideOf(op, send.dtype);
  if (wide_dtype == send.dtype) return AllReduceStages(send, recv, op, stages);
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer wide,
                            runner_.Scratch(StageRunner::kWideIn, send.count, wide_dtype));
  tensor::CastElements(send, wide);
  LOCKSTEP_RETURN_IF_ERROR(AllReduceStages(wide, wide, op, stages));
  tensor::CastElements(wide, recv);
  return OkStatus();
}

Status Reductions::Reduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root,
                          Deadline deadline) {
  const Call call{
      .kind = Kind::kReduce, .dtype = send.dtype, .op = op, .root = static_cast<uint16_t>(root)};
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages, runner_.Begin(call, send.count, {}, deadline));
  const DType wide_dtype = WideOf(op, send.dtype);
  if (wide_dtype == send.dtype) return ReduceStages(send, recv, op, root, stages);
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer wide,
                            runner_.Scratch(StageRunner::kWideIn, send.count, wide_dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Buffer result,
      runner_.Scratch(StageRunner::kWideOut, rank() == root ? send.count : 0, wide_dtype));
  tensor::CastElements(send, wide);
  LOCKSTEP_RETURN_IF_ERROR(ReduceStages(wide, result, op, root, stages));
  if (rank() == root) tensor::CastElements(result, recv);
  return OkStatus();
}

Status Reductions::ReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                                 Deadline deadline) {
  const auto mine = static_cast<size_t>(counts[static_cast<size_t>(rank())]);
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Stages stages,
      runner_.Begin({.kind = Kind::kReduceScatter, .dtype = send.dtype, .op = op}, send.count,
                    counts, deadline));
  const DType wide_dtype = WideOf(op, send.dtype);
  if (wide_dtype == send.dtype) return ReduceScatterStages(send, recv, counts, op, stages);
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer wide,
                            runner_.Scratch(StageRunner::kWideIn, send.count, wide_dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer result,
                            runner_.Scratch(StageRunner::kWideOut, mine, wide_dtype));
  tensor::CastElements(send, wide);
  LOCKSTEP_RETURN_IF_ERROR(ReduceScatterStages(wide, result, counts, op, stages));
  tensor::CastElements(result, recv);
  return OkStatus();
}

}  // namespace lockstep::collective::two_level
