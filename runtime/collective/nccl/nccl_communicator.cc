#include "runtime/collective/nccl/nccl_communicator.h"

#include <cstring>
#include <utility>

#include "runtime/base/log.h"

namespace lockstep::collective::nccl {

NcclCommunicator::~NcclCommunicator() {
  if (device_->is_abandoned) handle_->EndAlone();
}

Status NcclCommunicator::Usable() {
  if (failure_.ok()) {
    std::lock_guard lock(mutex_);
    failure_ = aborted_;
  }
  return failure_;
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
    std::shared_ptr<Device> device, std::shared_ptr<Communicator> host, Handle* whole,
    Deadline deadline, const std::atomic<bool>* cancelled) {
  const std::string who = "the GPUs of " + NameRanks(host->members()) + " are not connected";
  const auto connect = [&]() -> StatusOr<std::unique_ptr<Handle>> {
    // NCCL allocates by itself.
    if (device->make_room) device->make_room();
    // A rank whose last split was given up cannot split again, and the others do not know.
    int32_t can_split = whole != nullptr && whole->CanSplit() ? 1 : 0;
    const Buffer asked{&can_split, 1, DType::kInt32};
    LOCKSTEP_RETURN_IF_ERROR(host->AllReduce(asked, asked, ReduceOp::kMin, deadline));
    if (can_split != 0) return whole->SplitAll(host->rank(), deadline, cancelled);
    ncclUniqueId id{};
    if (host->rank() == 0) {
      LOCKSTEP_RETURN_IF_ERROR(ToStatus(device->library, device->library.ncclGetUniqueId(&id),
                                        "ncclGetUniqueId", nullptr));
    }
    const Buffer bytes{&id, sizeof id, DType::kUInt8};
    LOCKSTEP_RETURN_IF_ERROR(host->Broadcast(bytes, bytes, 0, deadline));
    return Handle::Init(device->library, device->streams->gpu().shared_from_this(), id,
                        host->rank(), host->size(), deadline, cancelled);
  };
  StatusOr<std::unique_ptr<Handle>> handle = connect();
  if (!handle.ok()) return Annotate(handle.status(), who);
  (*handle)->Register(device->registered, deadline);
  return std::make_unique<NcclCommunicator>(std::move(device), std::move(host), *std::move(handle));
}

Status NcclCommunicator::Post(const char* what, absl::Span<const cuda::Range> memory,
                              Deadline deadline, const Calls& calls) {
  const auto post = [&]() -> Status {
    cuda::StreamPair& streams = *device_->streams;
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
  return NcclCommunicator::Make(device_, std::move(host), nullptr, deadline, cancelled);
}

}  // namespace lockstep::collective::nccl
