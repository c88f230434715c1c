#include "runtime/collective/nccl/nccl_communicator.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/rank_text.h"
#include "runtime/collective/checks.h"
#include "runtime/collective/nccl/reduction_plan.h"

namespace lockstep::collective::nccl {
namespace {

constexpr int kFirstWithFloat8 = 22400;
// Communicators that a session has let go of may take so long to end.
constexpr std::chrono::seconds kForEndings{2};
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
  if (resources_->is_abandoned && handle_ != nullptr) handle_->EndAlone();
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
  std::lock_guard lock(mutex_);
  handle_is_aborted_ = true;
  if (handle_ != nullptr) handle_->Abort(Status(StatusCode::kAborted, Message(cause)));
}

Status NcclCommunicator::DoBarrier(Deadline deadline) {
  return Agree({.kind = Kind::kBarrier}, 0, {}, deadline);
}

StatusOr<std::shared_ptr<Handle>> NcclCommunicator::MakeHandle(Deadline deadline) {
  CommunicatorSlots& slots = *resources_->slots;
  std::shared_ptr<void> slot =
      slots.Take(deadline.Earlier(Deadline::After(kForEndings)), &is_given_up_);
  const std::shared_ptr<Handle> whole = whole_.lock();
  // A rank whose last split was given up cannot split again, and the others do not know.
  const bool can_split = whole != nullptr && whole->CanSplit();
  const auto means = slot == nullptr ? Means::kNone : can_split ? Means::kSplit : Means::kUniqueId;
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<Means> all,
      ShareAmongAll<Means>(*host_, {&means, 1}, "connecting the ranks' GPUs", deadline));
  const auto none = std::find(all.begin(), all.end(), Means::kNone);
  if (none != all.end()) {
    const bool is_mine = slot == nullptr;
    return ResourceExhausted(
        "rank ", members()[static_cast<size_t>(none - all.begin())],
        " has as many communicators of ", LOCKSTEP_NCCL_NAME, " as it may have",
        is_mine ? " (max_gpu_communicators: " + std::to_string(slots.most()) + ")"
                : " (max_gpu_communicators)",
        ": each session has one for the world, one for its groups and one for each team that "
        "exchanges tensors on GPUs; close sessions, use fewer teams, or set more");
  }
  // NCCL allocates by itself.
  if (resources_->make_room) resources_->make_room(UntilCancelled(deadline, &is_given_up_));
  if (*std::min_element(all.begin(), all.end()) == Means::kSplit) {
    return whole->SplitAll(rank(), deadline, &is_given_up_, std::move(slot));
  }
  ncclUniqueId id{};
  if (rank() == 0) {
    LOCKSTEP_RETURN_IF_ERROR(ToStatus(resources_->library, resources_->library.ncclGetUniqueId(&id),
                                      "ncclGetUniqueId", nullptr));
  }
  const Buffer bytes{&id, sizeof id, DType::kUInt8};
  LOCKSTEP_RETURN_IF_ERROR(host_->Broadcast(bytes, bytes, 0, deadline));
  return Handle::Init(resources_->library, resources_->streams->gpu().shared_from_this(), id,
                      rank(), size(), deadline, &is_given_up_, std::move(slot));
}

Status NcclCommunicator::Connect(Deadline deadline) {
  if (handle_ != nullptr) [[likely]]
    return OkStatus();
  LOCKSTEP_RETURN_IF_ERROR(Usable());
  StatusOr<std::shared_ptr<Handle>> made = MakeHandle(deadline);
  if (!made.ok()) {
    return Fail(
        Annotate(made.status(), "the GPUs of " + ListRanks(members()) + " are not connected"));
  }
  (*made)->Register(resources_->registered, deadline);
  std::lock_guard lock(mutex_);
  handle_ = *std::move(made);
  // One that came meanwhile has not seen it.
  if (handle_is_aborted_) handle_->Abort(aborted_);
  return OkStatus();
}

Status NcclCommunicator::RequireConnected() const {
  if (handle_ != nullptr) [[likely]]
    return OkStatus();
  return FailedPrecondition("a message before the ranks have connected their GPUs");
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
  LOCKSTEP_RETURN_IF_ERROR(Connect(deadline));
  if (resources_->make_room && IsFirstOfItsKind(what, memory.front().size_bytes, peer)) {
    resources_->make_room(UntilCancelled(deadline, &is_given_up_));
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
  auto made = std::make_unique<NcclCommunicator>(resources_, std::move(host));
  LOCKSTEP_RETURN_IF_ERROR(made->Connect(deadline));
  return made;
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
  LOCKSTEP_RETURN_IF_ERROR(Connect(deadline));
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
                            ReductionPlan::For(op, size(), send, recv, *resources_->allocator));
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
                            ReductionPlan::For(op, size(), send, recv, *resources_->allocator));
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
                            ReductionPlan::For(op, size(), send, recv, *resources_->allocator));
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

StatusOr<bool> NcclCommunicator::AgreeOnPairs(DType dtype, Counts send_counts, Counts recv_counts,
                                              Deadline deadline) {
  if (agreed_ != nullptr && agreed_->is_known) return agreed_->all_even;
  const StatusOr<bool> all_even =
      agreement_.AgreeOnPairs(dtype, send_counts, recv_counts, deadline);
  if (!all_even.ok()) return Fail(all_even.status());
  if (agreed_ != nullptr) agreed_->all_even = *all_even;
  return all_even;
}

Status NcclCommunicator::DoAllToAll(ConstBuffer send, Counts send_counts, Buffer recv,
                                    Counts recv_counts, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool all_even,
                            AgreeOnPairs(send.dtype, send_counts, recv_counts, deadline));
  // Also where this rank has no part in what follows.
  LOCKSTEP_RETURN_IF_ERROR(Connect(deadline));
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
  LOCKSTEP_RETURN_IF_ERROR(RequireConnected());
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
  LOCKSTEP_RETURN_IF_ERROR(RequireConnected());
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
  LOCKSTEP_RETURN_IF_ERROR(RequireConnected());
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
