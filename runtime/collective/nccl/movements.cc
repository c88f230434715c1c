// Operations that move data: as bytes, whatever they are.
#include <utility>

#include "runtime/collective/checks.h"
#include "runtime/collective/nccl/nccl_communicator.h"

namespace lockstep::collective::nccl {
namespace {

// The parts of a buffer, by rank.
std::vector<cuda::Range> Cut(ConstBuffer buffer, Counts counts) {
  std::vector<cuda::Range> parts;
  const auto* next = static_cast<const std::byte*>(buffer.data);
  for (const int64_t count : counts) {
    const size_t bytes = static_cast<size_t>(count) * SizeOf(buffer.dtype);
    parts.push_back({next, bytes});
    next += bytes;
  }
  return parts;
}

std::vector<cuda::Range> OnlyFor(Rank rank, int size, cuda::Range part) {
  std::vector<cuda::Range> parts(static_cast<size_t>(size));
  parts[static_cast<size_t>(rank)] = part;
  return parts;
}

void* Writable(const void* memory) { return const_cast<void*>(memory); }

}  // namespace

ncclResult_t NcclCommunicator::Exchange(const Library& nccl, ncclComm_t comm, NativeStream stream,
                                        const Parts& parts) {
  ncclResult_t result = nccl.ncclGroupStart();
  const auto add = [&](ncclResult_t next) {
    if (result == ncclSuccess || result == ncclInProgress) result = next;
  };
  for (size_t r = 0; r < parts.send.size(); ++r) {
    const auto& [out, out_bytes] = parts.send[r];
    const auto& [in, in_bytes] = parts.recv[r];
    // A rank's own part that is in its place already.
    if (out == in && out_bytes == in_bytes) continue;
    const int peer = static_cast<int>(r);
    if (out_bytes > 0) add(nccl.ncclSend(out, out_bytes, ncclUint8, peer, comm, stream));
    if (in_bytes > 0) add(nccl.ncclRecv(Writable(in), in_bytes, ncclUint8, peer, comm, stream));
  }
  const ncclResult_t ended = nccl.ncclGroupEnd();
  add(ended);
  return result;
}

Status NcclCommunicator::DoBroadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(
      Agree({.kind = Kind::kBroadcast, .dtype = recv.dtype, .root = static_cast<uint16_t>(root)},
            recv.count, {}, deadline));
  if (recv.count == 0) return OkStatus();
  const void* const from = rank() == root ? send.data : recv.data;
  return Post("ncclBroadcast", {{RangeOf(recv), {from, RangeOf(recv).size_bytes}}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return nccl.ncclBroadcast(from, recv.data, RangeOf(recv).size_bytes, ncclUint8,
                                          root, comm, stream);
              });
}

Status NcclCommunicator::DoAllGather(ConstBuffer send, Buffer recv, Counts counts,
                                     Deadline deadline) {
  const std::vector<cuda::Range> parts = Cut(recv, counts);
  const cuda::Range& own = parts[static_cast<size_t>(rank())];
  LOCKSTEP_RETURN_IF_ERROR(
      Agree({.kind = Kind::kAllGather, .dtype = recv.dtype}, recv.count, counts, deadline));
  if (recv.count == 0) return OkStatus();
  return Post("ncclAllGather", {{RangeOf(send), RangeOf(recv)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                if (AreEven(counts)) {
                  return nccl.ncclAllGather(send.data, recv.data, own.size_bytes, ncclUint8, comm,
                                            stream);
                }
                return Exchange(nccl, comm, stream,
                                {std::vector<cuda::Range>(counts.size(), RangeOf(send)), parts});
              });
}

Status NcclCommunicator::DoGather(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                                  Deadline deadline) {
  const auto total = static_cast<size_t>(SumOf(counts));
  std::vector<cuda::Range> parts(counts.size());
  if (rank() == root) parts = Cut(recv, counts);
  LOCKSTEP_RETURN_IF_ERROR(
      Agree({.kind = Kind::kGather, .dtype = send.dtype, .root = static_cast<uint16_t>(root)},
            total, counts, deadline));
  if (total == 0) return OkStatus();
  return Post("ncclGather", {{RangeOf(send), RangeOf(recv)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                if (nccl.gather != nullptr && AreEven(counts)) {
                  return nccl.gather(send.data, recv.data, RangeOf(send).size_bytes, ncclUint8,
                                     root, comm, stream);
                }
                return Exchange(nccl, comm, stream, {OnlyFor(root, size(), RangeOf(send)), parts});
              });
}

Status NcclCommunicator::DoScatter(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                                   Deadline deadline) {
  const auto total = static_cast<size_t>(SumOf(counts));
  std::vector<cuda::Range> parts(counts.size());
  if (rank() == root) parts = Cut(send, counts);
  LOCKSTEP_RETURN_IF_ERROR(
      Agree({.kind = Kind::kScatter, .dtype = recv.dtype, .root = static_cast<uint16_t>(root)},
            total, counts, deadline));
  if (total == 0) return OkStatus();
  return Post("ncclScatter", {{RangeOf(send), RangeOf(recv)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                if (nccl.scatter != nullptr && AreEven(counts)) {
                  return nccl.scatter(send.data, recv.data, RangeOf(recv).size_bytes, ncclUint8,
                                      root, comm, stream);
                }
                return Exchange(nccl, comm, stream, {parts, OnlyFor(root, size(), RangeOf(recv))});
              });
}

Status NcclCommunicator::DoAllToAll(ConstBuffer send, Counts send_counts, Buffer recv,
                                    Counts recv_counts, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool all_even,
                            AgreeOnPairs(send.dtype, send_counts, recv_counts, deadline));
  if (send.count == 0 && recv.count == 0) return OkStatus();
  return Post(
      "ncclAlltoAll", {{RangeOf(send), RangeOf(recv)}}, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
        if (nccl.all_to_all != nullptr && all_even) {
          return nccl.all_to_all(send.data, recv.data,
                                 static_cast<size_t>(send_counts[0]) * SizeOf(send.dtype),
                                 ncclUint8, comm, stream);
        }
        return Exchange(nccl, comm, stream, {Cut(send, send_counts), Cut(recv, recv_counts)});
      });
}

Status NcclCommunicator::DoSend(ConstBuffer send, Rank to, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(AgreeOnMessages(send, to, {}, -1, deadline));
  if (send.count == 0) return OkStatus();
  return Post("ncclSend", {{RangeOf(send)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return nccl.ncclSend(send.data, RangeOf(send).size_bytes, ncclUint8, to, comm,
                                     stream);
              });
}

Status NcclCommunicator::DoRecv(Buffer recv, Rank from, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(AgreeOnMessages({}, -1, recv, from, deadline));
  if (recv.count == 0) return OkStatus();
  return Post("ncclRecv", {{RangeOf(recv)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return nccl.ncclRecv(recv.data, RangeOf(recv).size_bytes, ncclUint8, from, comm,
                                     stream);
              });
}

Status NcclCommunicator::DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                    Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(AgreeOnMessages(send, to, recv, from, deadline));
  if (send.count == 0 && recv.count == 0) return OkStatus();
  const auto ranks = static_cast<size_t>(size());
  Parts parts{std::vector<cuda::Range>(ranks), std::vector<cuda::Range>(ranks)};
  parts.send[static_cast<size_t>(to)] = RangeOf(send);
  parts.recv[static_cast<size_t>(from)] = RangeOf(recv);
  return Post("ncclSend and ncclRecv", {{RangeOf(send), RangeOf(recv)}}, deadline,
              [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
                return Exchange(nccl, comm, stream, parts);
              });
}

}  // namespace lockstep::collective::nccl
