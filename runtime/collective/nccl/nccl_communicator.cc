#include "runtime/collective/nccl/nccl_communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/rank_text.h"
#include "runtime/collective/checks.h"
#include "runtime/collective/nccl/reduction_plan.h"

namespace lockstep::collective::nccl {
namespace {

constexpr int kFirstWithFloat8 = 22400;
constexpr int kFirstGpuWithFloat8 = 9;

// The parts of a buffer, by rank.
std::vector<MemoryRange> Cut(ConstBuffer buffer, Counts counts) {
  std::vector<MemoryRange> parts;
  const auto* next = static_cast<const std::byte*>(buffer.data);
  for (const int64_t count : counts) {
    const size_t bytes = static_cast<size_t>(count) * SizeOf(buffer.dtype);
    parts.push_back({next, bytes});
    next += bytes;
  }
  return parts;
}

std::vector<MemoryRange> OnlyFor(Rank rank, int size, MemoryRange part) {
  std::vector<MemoryRange> parts(static_cast<size_t>(size));
  parts[static_cast<size_t>(rank)] = part;
  return parts;
}

void* Writable(const void* memory) { return const_cast<void*>(memory); }

const std::byte* At(const void* memory, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(memory) + static_cast<size_t>(elements) * SizeOf(dtype);
}

}  // namespace

NcclCommunicator::~NcclCommunicator() {
  if (resources_->is_abandoned) handle_->EndAlone();
}

Status NcclCommunicator::Usable() {
  if (failure_.ok()) {
    std::lock_guard lock(mutex_);
    failure_ = aborted_;
  }
  return failure_;
}

Status NcclCommunicator::AgreeOnHostMemory(const std::string& what, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  return Keep(agreement_.AgreeOnHostMemory(what, deadline));
}

Status NcclCommunicator::Fail(const Status& failure) {
  if (failure_.ok()) failure_ = failure;
  return failure_;
}

void NcclCommunicator::AbortHost(const Status& cause) {
  {
    std::lock_guard lock(mutex_);
    if (!aborted_.ok()) return;
    aborted_ = Status(StatusCode::kAborted, Message(cause));
  }
  is_given_up_ = true;
  host_->Abort(cause);
}

void NcclCommunicator::Abort(const Status& cause) {
  AbortHost(cause);
  handle_->Abort(Status(StatusCode::kAborted, Message(cause)));
}

Status NcclCommunicator::DoBarrier(Deadline deadline) {
  return Agree({.kind = Kind::kBarrier}, 0, {}, deadline);
}

StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Make(
    std::shared_ptr<CommunicatorResources> resources, std::shared_ptr<Communicator> host,
    Handle* whole, Deadline deadline, const std::atomic<bool>* cancelled) {
  const std::string who = "the GPUs of " + ListRanks(host->members()) + " are not connected";
  const auto connect = [&]() -> StatusOr<std::unique_ptr<Handle>> {
    // NCCL allocates by itself.
    if (resources->make_room) resources->make_room();
    // A rank whose last split was given up cannot split again, and the others do not know.
    int32_t can_split = whole != nullptr && whole->CanSplit() ? 1 : 0;
    const Buffer asked{&can_split, 1, DType::kInt32};
    LOCKSTEP_RETURN_IF_ERROR(host->AllReduce(asked, asked, ReduceOp::kMin, deadline));
    if (can_split != 0) return whole->SplitAll(host->rank(), deadline, cancelled);
    ncclUniqueId id{};
    if (host->rank() == 0) {
      LOCKSTEP_RETURN_IF_ERROR(ToStatus(resources->library, resources->library.ncclGetUniqueId(&id),
                                        "ncclGetUniqueId", nullptr));
    }
    const Buffer bytes{&id, sizeof id, DType::kUInt8};
    LOCKSTEP_RETURN_IF_ERROR(host->Broadcast(bytes, bytes, 0, deadline));
    return Handle::Init(resources->library, resources->streams->gpu().shared_from_this(), id,
                        host->rank(), host->size(), deadline, cancelled);
  };
  StatusOr<std::unique_ptr<Handle>> handle = connect();
  if (!handle.ok()) return Annotate(handle.status(), who);
  (*handle)->Register(resources->registered, deadline);
  return std::make_unique<NcclCommunicator>(std::move(resources), std::move(host),
                                            *std::move(handle));
}

bool NcclCommunicator::IsFirstOfItsKind(const char* what, size_t size_bytes, Rank peer) {
  const uint64_t bit = uint64_t{1} << (peer >= 0 ? peer % 64 : std::bit_width(size_bytes) % 64);
  auto done = std::find_if(kinds_done_.begin(), kinds_done_.end(),
                           [&](const auto& kind) { return kind.first == what; });
  if (done == kinds_done_.end()) done = kinds_done_.insert(done, {what, 0});
  if ((done->second & bit) != 0) [[likely]]
    return false;
  done->second |= bit;
  return true;
}

Status NcclCommunicator::Post(const char* what, absl::Span<const MemoryRange> memory,
                              Deadline deadline, const Calls& calls, Rank peer) {
  if (resources_->make_room && IsFirstOfItsKind(what, memory.front().size_bytes, peer)) {
    resources_->make_room();
  }
  const auto post = [&]() -> Status {
    cuda::StreamPair& streams = *resources_->streams;
    LOCKSTEP_RETURN_IF_ERROR(streams.BeginCommunication());
    const NativeStream stream = ToNative(streams.communication().handle());
    const Status posted = handle_->Run(
        what, deadline, &is_given_up_,
        [&](const Library& nccl, ncclComm_t comm) { return calls(nccl, comm, stream); });
    // Also after an error: some of it may have been put in.
    const Status ended = streams.EndCommunication(memory);
    handle_->NoteEnd(streams.EndOfLastCommunication());
    return posted.ok() ? ended : posted;
  };
  const Status posted = post();
  return posted.ok() ? posted : Fail(posted);
}

StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::DoSplit(
    absl::Span<const Rank> group_ranks, uint64_t tag, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<Communicator> host,
                            host_->Split(group_ranks, tag, deadline, cancelled));
  return NcclCommunicator::Make(resources_, std::move(host), nullptr, deadline, cancelled);
}

// Operations that combine data.

Status NcclCommunicator::CheckReducible(ReduceOp op, DType dtype) const {
  const bool is_float8 = dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2;
  if (is_float8 && resources_->library.version >= kFirstWithFloat8 &&
      resources_->streams->gpu().facts().major >= kFirstGpuWithFloat8) {
    return CheckReduction(op, DType::kFloat32);
  }
  return CheckReduction(op, dtype);
}

Status NcclCommunicator::PostReduction(const char* what, const ReductionPlan& plan,
                                       ConstBuffer send, Buffer recv, Deadline deadline,
                                       const Reduction& calls) {
  const bool widens = plan.wide_send != nullptr;
  const ConstBuffer from =
      widens ? ConstBuffer{plan.wide_send->data(), send.count, plan.wide} : send;
  const Buffer to = widens ? Buffer{plan.wide_recv->data(), recv.count, plan.wide} : recv;
  cuda::Stream& stream = resources_->streams->communication();
  // In the communication stream from the first to the last step: no other work uses the wide copies
  // beside it.
  const auto on_lane = [&](const Status& status) { return status.ok() ? status : Fail(status); };
  if (widens) {
    LOCKSTEP_RETURN_IF_ERROR(on_lane(resources_->streams->BeginCommunication()));
    LOCKSTEP_RETURN_IF_ERROR(on_lane(resources_->elements.Cast(
        stream, send, Buffer{plan.wide_send->data(), send.count, plan.wide})));
  }
  const MemoryRange memory[] = {RangeOf(send), RangeOf(recv), RangeOf(from), RangeOf(to)};
  LOCKSTEP_RETURN_IF_ERROR(
      Post(what, memory, deadline, [&](const Library& nccl, ncclComm_t comm, NativeStream native) {
        return calls(nccl, comm, native, from.data, to.data);
      }));
  if (recv.count == 0 || (!widens && !plan.makes_bools)) return OkStatus();
  const ConstBuffer result =
      widens ? ConstBuffer(to) : ConstBuffer{recv.data, recv.count, DType::kUInt8};
  LOCKSTEP_RETURN_IF_ERROR(on_lane(resources_->elements.Cast(stream, result, recv)));
  return on_lane(resources_->streams->EndCommunication(memory));
}

Status NcclCommunicator::DoAllReduce(ConstBuffer send, Buffer recv, ReduceOp op,
                                     Deadline deadline) {
  // Before the ranks agree: who has no memory for it keeps the others from beginning.
  LOCKSTEP_ASSIGN_OR_RETURN(const ReductionPlan plan,
                            ReductionPlan::For(op, send, recv, *resources_->allocator));
  LOCKSTEP_RETURN_IF_ERROR(
      Agree({.kind = Kind::kAllReduce, .dtype = send.dtype, .op = op}, send.count, {}, deadline));
  if (send.count == 0) return OkStatus();
  return PostReduction(
      "ncclAllReduce", plan, send, recv, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream, const void* from, void* to) {
        return nccl.ncclAllReduce(from, to, send.count, plan.type, plan.op, comm, stream);
      });
}

Status NcclCommunicator::DoReduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root,
                                  Deadline deadline) {
  // Before the ranks agree: who has no memory for it keeps the others from beginning.
  LOCKSTEP_ASSIGN_OR_RETURN(const ReductionPlan plan,
                            ReductionPlan::For(op, send, recv, *resources_->allocator));
  LOCKSTEP_RETURN_IF_ERROR(Agree(
      {.kind = Kind::kReduce, .dtype = send.dtype, .op = op, .root = static_cast<uint16_t>(root)},
      send.count, {}, deadline));
  if (send.count == 0) return OkStatus();
  return PostReduction(
      "ncclReduce", plan, send, recv, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream, const void* from, void* to) {
        return nccl.ncclReduce(from, to, send.count, plan.type, plan.op, root, comm, stream);
      });
}

Status NcclCommunicator::DoReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                                         Deadline deadline) {
  const auto mine = static_cast<size_t>(counts[static_cast<size_t>(rank())]);
  // Before the ranks agree: who has no memory for it keeps the others from beginning.
  LOCKSTEP_ASSIGN_OR_RETURN(const ReductionPlan plan,
                            ReductionPlan::For(op, send, recv, *resources_->allocator));
  LOCKSTEP_RETURN_IF_ERROR(Agree({.kind = Kind::kReduceScatter, .dtype = send.dtype, .op = op},
                                 send.count, counts, deadline));
  if (send.count == 0) return OkStatus();
  return PostReduction(
      "ncclReduceScatter", plan, send, recv, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream, const void* from, void* to) {
        if (AreEven(counts)) {
          return nccl.ncclReduceScatter(from, to, mine, plan.type, plan.op, comm, stream);
        }
        // A reduction to each rank, of its part, all at once.
        ncclResult_t result = nccl.ncclGroupStart();
        int64_t offset = 0;
        const auto is_fine = [&] { return result == ncclSuccess || result == ncclInProgress; };
        for (int root = 0; root < size() && is_fine(); ++root) {
          const int64_t count = counts[static_cast<size_t>(root)];
          if (count > 0) {
            result = nccl.ncclReduce(At(from, offset, plan.wide), to, static_cast<size_t>(count),
                                     plan.type, plan.op, root, comm, stream);
          }
          offset += count;
        }
        const ncclResult_t ended = nccl.ncclGroupEnd();
        return is_fine() ? ended : result;
      });
}

// Operations that move data: as bytes, whatever they are.

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
  const std::vector<MemoryRange> parts = Cut(recv, counts);
  const MemoryRange& own = parts[static_cast<size_t>(rank())];
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
                                {std::vector<MemoryRange>(counts.size(), RangeOf(send)), parts});
              });
}

Status NcclCommunicator::DoGather(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                                  Deadline deadline) {
  const auto total = static_cast<size_t>(SumOf(counts));
  std::vector<MemoryRange> parts(counts.size());
  if (rank() == root) parts = Cut(recv, counts);
  LOCKSTEP_RETURN_IF_ERROR(
      Agree({.kind = Kind::kGather, .dtype = send.dtype, .root = static_cast<uint16_t>(root)},
            total, counts, deadline));
  if (total == 0) return OkStatus();
  return Post(
      "ncclGather", {{RangeOf(send), RangeOf(recv)}}, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
        if (nccl.gather != nullptr && AreEven(counts)) {
          return nccl.gather(send.data, recv.data, RangeOf(send).size_bytes, ncclUint8, root, comm,
                             stream);
        }
        return Exchange(nccl, comm, stream, {OnlyFor(root, size(), RangeOf(send)), parts});
      },
      root);
}

Status NcclCommunicator::DoScatter(ConstBuffer send, Buffer recv, Counts counts, Rank root,
                                   Deadline deadline) {
  const auto total = static_cast<size_t>(SumOf(counts));
  std::vector<MemoryRange> parts(counts.size());
  if (rank() == root) parts = Cut(send, counts);
  LOCKSTEP_RETURN_IF_ERROR(
      Agree({.kind = Kind::kScatter, .dtype = recv.dtype, .root = static_cast<uint16_t>(root)},
            total, counts, deadline));
  if (total == 0) return OkStatus();
  return Post(
      "ncclScatter", {{RangeOf(send), RangeOf(recv)}}, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
        if (nccl.scatter != nullptr && AreEven(counts)) {
          return nccl.scatter(send.data, recv.data, RangeOf(recv).size_bytes, ncclUint8, root, comm,
                              stream);
        }
        return Exchange(nccl, comm, stream, {parts, OnlyFor(root, size(), RangeOf(recv))});
      },
      root);
}

Status NcclCommunicator::DoAllToAll(ConstBuffer send, Counts send_counts, Buffer recv,
                                    Counts recv_counts, Deadline deadline) {
  const StatusOr<bool> all_even =
      agreement_.AgreeOnPairs(send.dtype, send_counts, recv_counts, deadline);
  if (!all_even.ok()) return Fail(all_even.status());
  if (send.count == 0 && recv.count == 0) return OkStatus();
  return Post(
      "ncclAlltoAll", {{RangeOf(send), RangeOf(recv)}}, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
        if (nccl.all_to_all != nullptr && *all_even) {
          return nccl.all_to_all(send.data, recv.data,
                                 static_cast<size_t>(send_counts[0]) * SizeOf(send.dtype),
                                 ncclUint8, comm, stream);
        }
        return Exchange(nccl, comm, stream, {Cut(send, send_counts), Cut(recv, recv_counts)});
      });
}

Status NcclCommunicator::DoSend(ConstBuffer send, Rank to, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Keep(agreement_.AgreeOnMessages(send, to, {}, -1, deadline)));
  if (send.count == 0) return OkStatus();
  return Post(
      "ncclSend", {{RangeOf(send)}}, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
        return nccl.ncclSend(send.data, RangeOf(send).size_bytes, ncclUint8, to, comm, stream);
      },
      to);
}

Status NcclCommunicator::DoRecv(Buffer recv, Rank from, Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Keep(agreement_.AgreeOnMessages({}, -1, recv, from, deadline)));
  if (recv.count == 0) return OkStatus();
  return Post(
      "ncclRecv", {{RangeOf(recv)}}, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
        return nccl.ncclRecv(recv.data, RangeOf(recv).size_bytes, ncclUint8, from, comm, stream);
      },
      from);
}

Status NcclCommunicator::DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                    Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(Keep(agreement_.AgreeOnMessages(send, to, recv, from, deadline)));
  if (send.count == 0 && recv.count == 0) return OkStatus();
  const auto ranks = static_cast<size_t>(size());
  Parts parts{std::vector<MemoryRange>(ranks), std::vector<MemoryRange>(ranks)};
  parts.send[static_cast<size_t>(to)] = RangeOf(send);
  parts.recv[static_cast<size_t>(from)] = RangeOf(recv);
  return Post(
      "ncclSend and ncclRecv", {{RangeOf(send), RangeOf(recv)}}, deadline,
      [&](const Library& nccl, ncclComm_t comm, NativeStream stream) {
        return Exchange(nccl, comm, stream, parts);
      },
      to);
}

}  // namespace lockstep::collective::nccl
