// Broadcast, AllGather, Gather, Scatter, AllToAll, Barrier.
//
// What several nodes want crosses once to each of them, in slices over all rails. Only an
// all-to-all crosses from rank to rank, for no two ranks want the same of it.
#include <algorithm>
#include <cstring>

#include "runtime/base/fast_copy.h"
#include "runtime/collective/checks.h"
#include "runtime/collective/two_level/two_level_communicator.h"

namespace lockstep::collective::two_level {
namespace {

void Copy(Buffer to, ConstBuffer from) {
  if (to.data != from.data && to.count > 0) FastCopy(to.data, from.data, to.size_bytes());
}

Call CallOf(Kind kind, DType dtype, Rank root) {
  return {.kind = kind, .dtype = dtype, .root = static_cast<uint16_t>(root)};
}

}  // namespace

Status TwoLevelCommunicator::MeetAcross(const Stages& stages) {
  const Status crossed =
      OnRail(layout_.local() == 0, [&](Communicator& rail) { return rail.Barrier(stages.across); });
  return EndCrossing(crossed, stages);
}

StatusOr<ConstBuffer> TwoLevelCommunicator::GatherInside(ConstBuffer send, Counts counts,
                                                         Deadline deadline) {
  if (node_ == nullptr) return send;
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer segment,
                            Scratch(kSegment, static_cast<size_t>(SumOf(counts)), send.dtype));
  LOCKSTEP_RETURN_IF_ERROR(Inside(node_->AllGather(send, segment, counts, deadline)));
  return ConstBuffer(segment);
}

Status TwoLevelCommunicator::HandOut(ConstBuffer mine, const Parcels& parcels, Buffer recv,
                                     Deadline deadline) {
  ConstBuffer segment = mine;
  if (node_ != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Buffer whole,
                              Scratch(kSegment, parcels.segment_count(), recv.dtype));
    LOCKSTEP_RETURN_IF_ERROR(
        Inside(node_->AllGather(mine, whole, layout_.LocalCountsOf(parcels.slices()), deadline)));
    segment = whole;
  }
  const std::vector<int64_t> own = parcels.own_counts();
  Copy(recv, PartOf(segment, {static_cast<size_t>(OffsetOf(own, layout_.local())), recv.count}));
  return OkStatus();
}

Status TwoLevelCommunicator::DoBroadcast(ConstBuffer send, Buffer recv, Rank root,
                                         Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages, Begin(CallOf(Kind::kBroadcast, recv.dtype, root),
                                                       recv.count, {}, deadline));
  const bool has_it = layout_.IsNear(root);
  if (rank() == root) Copy(recv, send);
  if (has_it && node_ != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(
        Inside(node_->Broadcast(recv, recv, layout_.LocalOf(root), stages.inside)));
  }
  const std::vector<Slice> slices = layout_.SlicesOf(recv.count, SizeOf(recv.dtype));
  const Slice own = layout_.OwnOf(slices);
  const Buffer mine = PartOf(recv, own);
  const Status crossed = OnRail(layout_.local() == 0 || own.count > 0, [&](Communicator& rail) {
    return rail.Broadcast(mine, mine, layout_.NodeOf(root), stages.across);
  });
  LOCKSTEP_RETURN_IF_ERROR(EndCrossing(crossed, stages));
  if (has_it || node_ == nullptr) return OkStatus();
  return Inside(node_->AllGather(mine, recv, layout_.LocalCountsOf(slices), stages.after));
}

Status TwoLevelCommunicator::DoAllGather(ConstBuffer send, Buffer recv, Counts counts,
                                         Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const Stages stages,
      Begin({.kind = Kind::kAllGather, .dtype = recv.dtype}, recv.count, counts, deadline));
  const Parcels parcels(layout_, counts, SizeOf(recv.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(const ConstBuffer segment,
                            GatherInside(send, parcels.own_counts(), stages.inside));
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer packed, Scratch(kPacked, parcels.total(), recv.dtype));
  const Slice on_rail = parcels.RailSlice();
  const Buffer arriving = PartOf(packed, on_rail);
  const Status crossed = OnRail(layout_.local() == 0 || on_rail.count > 0, [&](Communicator& rail) {
    return rail.AllGather(PartOf(segment, layout_.OwnOf(parcels.slices())), arriving,
                          parcels.RailCounts(), stages.across);
  });
  LOCKSTEP_RETURN_IF_ERROR(EndCrossing(crossed, stages));
  if (node_ != nullptr) {
    LOCKSTEP_RETURN_IF_ERROR(
        Inside(node_->AllGather(arriving, packed, parcels.PackedCounts(), stages.after)));
  }
  parcels.Unpack(packed.data, recv.data);
  return OkStatus();
}

Status TwoLevelCommunicator::DoGather(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                                      Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages,
                            Begin(CallOf(Kind::kGather, send.dtype, root),
                                  static_cast<uint64_t>(SumOf(counts)), counts, deadline));
  const Parcels parcels(layout_, counts, SizeOf(send.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(const ConstBuffer segment,
                            GatherInside(send, parcels.own_counts(), stages.inside));
  const bool is_near = layout_.IsNear(root);
  const Slice on_rail = parcels.RailSlice();
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer arriving,
                            Scratch(kSlice, is_near ? on_rail.count : 0, send.dtype));
  const Status crossed = OnRail(layout_.local() == 0 || on_rail.count > 0, [&](Communicator& rail) {
    return rail.Gather(PartOf(segment, layout_.OwnOf(parcels.slices())), arriving,
                       parcels.RailCounts(), layout_.NodeOf(root), stages.across);
  });
  LOCKSTEP_RETURN_IF_ERROR(EndCrossing(crossed, stages));
  if (!is_near) return OkStatus();
  ConstBuffer packed = arriving;
  if (node_ != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Buffer whole,
                              Scratch(kPacked, rank() == root ? parcels.total() : 0, send.dtype));
    LOCKSTEP_RETURN_IF_ERROR(Inside(node_->Gather(arriving, whole, parcels.PackedCounts(),
                                                  layout_.LocalOf(root), stages.after)));
    packed = whole;
  }
  if (rank() == root) parcels.Unpack(packed.data, recv.data);
  return OkStatus();
}

Status TwoLevelCommunicator::DoScatter(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                                       Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages,
                            Begin(CallOf(Kind::kScatter, recv.dtype, root),
                                  static_cast<uint64_t>(SumOf(counts)), counts, deadline));
  const Parcels parcels(layout_, counts, SizeOf(recv.dtype));
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer packed,
                            Scratch(kPacked, rank() == root ? parcels.total() : 0, recv.dtype));
  if (rank() == root) parcels.Pack(send.data, packed.data);
  Buffer leaving = packed;
  const Slice on_rail = parcels.RailSlice();
  if (layout_.IsNear(root) && node_ != nullptr) {
    LOCKSTEP_ASSIGN_OR_RETURN(leaving, Scratch(kSlice, on_rail.count, recv.dtype));
    LOCKSTEP_RETURN_IF_ERROR(Inside(node_->Scatter(packed, leaving, parcels.PackedCounts(),
                                                   layout_.LocalOf(root), stages.inside)));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Buffer piece,
                            Scratch(kPiece, layout_.OwnOf(parcels.slices()).count, recv.dtype));
  const Status crossed = OnRail(layout_.local() == 0 || on_rail.count > 0, [&](Communicator& rail) {
    return rail.Scatter(leaving, piece, parcels.RailCounts(), layout_.NodeOf(root), stages.across);
  });
  LOCKSTEP_RETURN_IF_ERROR(EndCrossing(crossed, stages));
  return HandOut(piece, parcels, recv, stages.after);
}

Status TwoLevelCommunicator::DoAllToAll(ConstBuffer send, Counts send_counts, Buffer recv,
                                        Counts recv_counts, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages,
                            Begin({.kind = Kind::kAllToAll, .dtype = send.dtype}, 0, {}, deadline));
  // Each element travels once anyway, so all go from rank to rank. But other operations meet on
  // rails, so the nodes find out there first whether all of them are in this one.
  LOCKSTEP_RETURN_IF_ERROR(MeetAcross(stages));
  network_->ActFor(what_);
  return EndCrossing(network_->AllToAll(send, send_counts, recv, recv_counts, stages.across),
                     stages);
}

Status TwoLevelCommunicator::DoBarrier(Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Stages stages, Begin({.kind = Kind::kBarrier}, 0, {}, deadline));
  return MeetAcross(stages);
}

}  // namespace lockstep::collective::two_level
