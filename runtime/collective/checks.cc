#include "runtime/collective/checks.h"

#include <cstddef>
#include <vector>

namespace lockstep::collective {

Status CheckRoot(Rank root, int size) {
  if (root >= 0 && root < size) return OkStatus();
  return InvalidArgument("root ", root, " is not a rank of a group of ", size);
}

Status CheckPeer(Rank peer, Rank rank, int size) {
  if (peer < 0 || peer >= size) {
    return InvalidArgument("peer ", peer, " is not a rank of a group of ", size);
  }
  if (peer == rank)
    return InvalidArgument("rank ", rank, " neither sends to nor receives from itself");
  return OkStatus();
}

Status CheckReduction(ReduceOp op, DType dtype) {
  if (static_cast<int>(op) >= kReduceOpCount) {
    return InvalidArgument("unknown reduction number ", static_cast<int>(op));
  }
  if (!IsArithmetic(dtype)) {
    return InvalidArgument(dtype, " is only moved, never computed with: cast it before a ", op);
  }
  if (op == ReduceOp::kAvg && dtype == DType::kBool) {
    return InvalidArgument(
        "avg is not defined for bool; sum and max are \"or\", prod and min \"and\"");
  }
  return OkStatus();
}

Status CheckCounts(Counts counts, int size) {
  if (counts.size() != static_cast<size_t>(size)) {
    return InvalidArgument(counts.size(), " counts are given for ", size, " ranks");
  }
  for (size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] < 0) return InvalidArgument("the count of rank ", r, " is negative: ", counts[r]);
  }
  return OkStatus();
}

Status CheckBuffer(const char* name, ConstBuffer buffer, size_t count, DType dtype) {
  if (buffer.dtype != dtype) {
    return InvalidArgument(name, " is ", buffer.dtype, " where ", dtype, " is expected");
  }
  if (buffer.count != count) {
    return InvalidArgument(name, " has ", buffer.count, " elements where ", count, " are expected");
  }
  if (buffer.data == nullptr && count > 0) {
    return InvalidArgument(name, " has ", count, " elements but no memory");
  }
  return OkStatus();
}

Status CheckOverlap(ConstBuffer send, ConstBuffer recv, const void* in_place) {
  if (send.count == 0 || recv.count == 0 || recv.data == in_place) return OkStatus();
  const auto* s = static_cast<const std::byte*>(send.data);
  const auto* r = static_cast<const std::byte*>(recv.data);
  if (s + send.size_bytes() <= r || r + recv.size_bytes() <= s) return OkStatus();
  return InvalidArgument("send and recv overlap by ",
                         s < r ? s + send.size_bytes() - r : r + recv.size_bytes() - s,
                         " bytes or more; they must be apart, or in place as the operation says");
}

Status CheckGroup(const Operation& operation, Rank rank, int size) {
  switch (operation.kind) {
    case Kind::kBarrier:
    case Kind::kAllReduce:
      return OkStatus();
    case Kind::kReduce:
    case Kind::kBroadcast:
      return CheckRoot(operation.root, size);
    case Kind::kGather:
    case Kind::kScatter:
      LOCKSTEP_RETURN_IF_ERROR(CheckRoot(operation.root, size));
      return CheckCounts(operation.counts, size);
    case Kind::kAllGather:
    case Kind::kReduceScatter:
      return CheckCounts(operation.counts, size);
    case Kind::kAllToAll:
      LOCKSTEP_RETURN_IF_ERROR(CheckCounts(operation.counts, size));
      return CheckCounts(operation.recv_counts, size);
    case Kind::kSend:
      return CheckPeer(operation.to, rank, size);
    case Kind::kRecv:
      return CheckPeer(operation.from, rank, size);
    case Kind::kSendRecv:
      LOCKSTEP_RETURN_IF_ERROR(CheckPeer(operation.to, rank, size));
      return CheckPeer(operation.from, rank, size);
  }
  return InvalidArgument("unknown operation number ", static_cast<int>(operation.kind));
}

Status CheckBuffers(const Operation& operation, Rank rank) {
  const auto& [kind, send, recv, op, counts, recv_counts, root, to, from] = operation;
  // What is in parts has one dtype: that of the buffer which every rank has.
  const auto total = static_cast<size_t>(SumOf(counts));
  const auto mine = counts.empty() ? 0 : static_cast<size_t>(counts[static_cast<size_t>(rank)]);
  const auto own_part = [counts = counts, rank](ConstBuffer whole) {
    return static_cast<const std::byte*>(whole.data) +
           static_cast<size_t>(OffsetOf(counts, rank)) * SizeOf(whole.dtype);
  };
  switch (kind) {
    case Kind::kBarrier:
      return OkStatus();
    case Kind::kAllReduce:
    case Kind::kReduce:
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, send.count, send.dtype));
      if (kind == Kind::kReduce && rank != root) return OkStatus();
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, send.count, send.dtype));
      return CheckOverlap(send, recv, send.data);
    case Kind::kBroadcast:
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, recv.count, recv.dtype));
      if (rank != root) return OkStatus();
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, recv.count, recv.dtype));
      return CheckOverlap(send, recv, send.data);
    case Kind::kAllGather:
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, total, recv.dtype));
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, mine, recv.dtype));
      return CheckOverlap(recv, send, own_part(recv));
    case Kind::kGather:
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, mine, send.dtype));
      if (rank != root) return OkStatus();
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, total, send.dtype));
      return CheckOverlap(recv, send, own_part(recv));
    case Kind::kReduceScatter:
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, total, send.dtype));
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, mine, send.dtype));
      return CheckOverlap(send, recv, own_part(send));
    case Kind::kScatter:
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, mine, recv.dtype));
      if (rank != root) return OkStatus();
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, total, recv.dtype));
      return CheckOverlap(send, recv, own_part(send));
    case Kind::kAllToAll:
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, total, send.dtype));
      LOCKSTEP_RETURN_IF_ERROR(
          CheckBuffer("recv", recv, static_cast<size_t>(SumOf(recv_counts)), send.dtype));
      return CheckOverlap(send, recv, nullptr);
    case Kind::kSend:
      return CheckBuffer("send", send, send.count, send.dtype);
    case Kind::kRecv:
      return CheckBuffer("recv", recv, recv.count, recv.dtype);
    case Kind::kSendRecv:
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("send", send, send.count, send.dtype));
      LOCKSTEP_RETURN_IF_ERROR(CheckBuffer("recv", recv, recv.count, recv.dtype));
      return CheckOverlap(send, recv, nullptr);
  }
  return OkStatus();
}

Status CheckSplit(absl::Span<const Rank> group_ranks, Rank rank, int size) {
  std::vector<bool> named(static_cast<size_t>(size), false);
  for (Rank r : group_ranks) {
    if (r < 0 || r >= size)
      return InvalidArgument("rank ", r, " is not one of the ", size, " ranks");
    if (named[static_cast<size_t>(r)]) return InvalidArgument("rank ", r, " is named twice");
    named[static_cast<size_t>(r)] = true;
  }
  if (!named[static_cast<size_t>(rank)]) {
    return InvalidArgument("rank ", rank, " splits off a group that it is no member of");
  }
  return OkStatus();
}

}  // namespace lockstep::collective
