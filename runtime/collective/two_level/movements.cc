#include "runtime/collective/two_level/movements.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/bulk_memory.h"
#include "runtime/collective/checks.h"

namespace lockstep::collective::two_level {
namespace {

void Copy(Buffer to, ConstBuffer from) {
  if (to.data != from.data && to.count > 0) FastCopy(to.data, from.data, to.size_bytes());
}

Call CallOf(Kind kind, DType dtype, Rank root) {
  return {.kind = kind, .dtype = dtype, .root = static_cast<uint16_t>(root)};
}

}  // namespace

Movements::Movements(StageRunner& runner)
    : runner_(runner), layout_(runner.layout()), node_(runner.node()) {}

Status Movements::MeetAcross(const Stages& stages) {
  const Status crossed = runner_.OnRail(
      layout_.local() == 0, [&](Communicator& rail) { return rail.Barrier(stages.across); });
  return runner_.EndCrossing(crossed, stages);
}

StatusOr<ConstBuffer> Movements::GatherInside(ConstBuffer send, Counts counts, Deadline deadline) {
  if (node_ == nullptr) return send;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Buffer segment,
      runner_.Scratch(StageRunner::kSegment, static_cast<size_t>(SumOf(counts)), send.dtype));
  LOCKSTEP_RETURN_IF_ERROR(runner_.Inside(node_->AllGather(send, segment, counts, deadline)));
  return ConstBuffer(segment);
}

Status Movements::Broadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Stages stages,
      runner_.Begin(CallOf(Kind::kBroadcast, recv.dtype, root), recv.count, {}, deadline));
  const bool has_it = layout_.IsNear(root);
  if (rank() == root) Copy(recv, send);
  if (has_it && node_ != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(
        runner_.Inside(node_->Broadcast(recv, recv, layout_.LocalOf(root), stages.inside)));
  }
  const std::vector<Slice> slices = layout_.SlicesOf(recv.count, SizeOf(recv.dtype));
  const Slice own = layout_.OwnOf(slices);
  const Buffer mine = PartOf(recv, own);
  const Status crossed =
      runner_.OnRail(layout_.local() == 0 || own.count > 0, [&](Communicator& rail) {
        return rail.Broadcast(mine, mine, layout_.NodeOf(root), stages.across);
      });
  LOCKSTEP_RETURN_IF_ERROR(runner_.EndCrossing(crossed, stages));
  if (has_it || node_ == nullptr) return OkStatus();
  return runner_.Inside(node_->AllGather(mine, recv, layout_.LocalCountsOf(slices), stages.after));
}

Status Movements::AllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Stages stages,
      runner_.Begin({.kind = Kind::kAllGather, .dtype = recv.dtype}, recv.count, counts, deadline));
  const RailPacking packing(layout_, counts, SizeOf(recv.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(const ConstBuffer segment,
                            GatherInside(send, packing.own_counts(), stages.inside));
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer packed,
                            runner_.Scratch(StageRunner::kPacked, packing.total(), recv.dtype));
  const Slice on_rail = packing.RailSlice();
  const Buffer arriving = PartOf(packed, on_rail);
  const Status crossed =
      runner_.OnRail(layout_.local() == 0 || on_rail.count > 0, [&](Communicator& rail) {
        return rail.AllGather(PartOf(segment, layout_.OwnOf(packing.slices())), arriving,
                              packing.RailCounts(), stages.across);
      });
  LOCKSTEP_RETURN_IF_ERROR(runner_.EndCrossing(crossed, stages));
  if (node_ != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(
        runner_.Inside(node_->AllGather(arriving, packed, packing.PackedCounts(), stages.after)));
  }
  packing.Unpack(packed.data, recv.data);
  return OkStatus();
}

Status Movements::Gather(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                         Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages,
                            runner_.Begin(CallOf(Kind::kGather, send.dtype, root),
                                          static_cast<uint64_t>(SumOf(counts)), counts, deadline));
  const RailPacking packing(layout_, counts, SizeOf(send.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(const ConstBuffer segment,
                            GatherInside(send, packing.own_counts(), stages.inside));
  const bool is_near = layout_.IsNear(root);
  const Slice on_rail = packing.RailSlice();
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Buffer arriving,
      runner_.Scratch(StageRunner::kSlice, is_near ? on_rail.count : 0, send.dtype));
  const Status crossed =
      runner_.OnRail(layout_.local() == 0 || on_rail.count > 0, [&](Communicator& rail) {
        return rail.Gather(PartOf(segment, layout_.OwnOf(packing.slices())), arriving,
                           packing.RailCounts(), layout_.NodeOf(root), stages.across);
      });
  LOCKSTEP_RETURN_IF_ERROR(runner_.EndCrossing(crossed, stages));
  if (!is_near) return OkStatus();
  ConstBuffer packed = arriving;
  if (node_ != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        const Buffer whole,
        runner_.Scratch(StageRunner::kPacked, rank() == root ? packing.total() : 0, send.dtype));
    LOCKSTEP_RETURN_IF_ERROR(runner_.Inside(node_->Gather(arriving, whole, packing.PackedCounts(),
                                                          layout_.LocalOf(root), stages.after)));
    packed = whole;
  }
  if (rank() == root) packing.Unpack(packed.data, recv.data);
  return OkStatus();
}

Status Movements::Scatter(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                          Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages,
                            runner_.Begin(CallOf(Kind::kScatter, recv.dtype, root),
                                          static_cast<uint64_t>(SumOf(counts)), counts, deadline));
  const RailPacking packing(layout_, counts, SizeOf(recv.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Buffer packed,
      runner_.Scratch(StageRunner::kPacked, rank() == root ? packing.total() : 0, recv.dtype));
  if (rank() == root) packing.Pack(send.data, packed.data);
  Buffer leaving = packed;
  const Slice on_rail = packing.RailSlice();
  if (layout_.IsNear(root) && node_ != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(leaving,
                              runner_.Scratch(StageRunner::kSlice, on_rail.count, recv.dtype));
    LOCKSTEP_RETURN_IF_ERROR(runner_.Inside(node_->Scatter(packed, leaving, packing.PackedCounts(),
                                                           layout_.LocalOf(root), stages.inside)));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Buffer piece,
      runner_.Scratch(StageRunner::kPiece, layout_.OwnOf(packing.slices()).count, recv.dtype));
  const Status crossed =
      runner_.OnRail(layout_.local() == 0 || on_rail.count > 0, [&](Communicator& rail) {
        return rail.Scatter(leaving, piece, packing.RailCounts(), layout_.NodeOf(root),
                            stages.across);
      });
  LOCKSTEP_RETURN_IF_ERROR(runner_.EndCrossing(crossed, stages));
  return runner_.HandOut(piece, packing, recv, stages.after);
}

Status Movements::AllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                           Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Stages stages,
      runner_.Begin({.kind = Kind::kAllToAll, .dtype = send.dtype}, 0, {}, deadline));
  // Each element travels once anyway, so all go from rank to rank. But other operations meet on
  // rails, so the nodes find out there first whether all of them are in this one.
  LOCKSTEP_RETURN_IF_ERROR(MeetAcross(stages));
  runner_.network().ReportAs(runner_.what());
  return runner_.EndCrossing(
      runner_.network().AllToAll(send, send_counts, recv, recv_counts, stages.across), stages);
}

Status Movements::Barrier(Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages,
                            runner_.Begin({.kind = Kind::kBarrier}, 0, {}, deadline));
  return MeetAcross(stages);
}

}  // namespace lockstep::collective::two_level
