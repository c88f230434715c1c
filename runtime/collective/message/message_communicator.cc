#include "runtime/collective/message/message_communicator.h"

#include <algorithm>
#include <utility>

#include "runtime/collective/checks.h"
#include "runtime/collective/message/header.h"
#include "runtime/collective/message/some_ranks.h"

namespace lockstep::collective::message {

MessageCommunicator::MessageCommunicator(std::unique_ptr<Transport> transport,
                                         std::vector<Rank> members,
                                         std::shared_ptr<AbortCause> abort_cause)
    : transport_(std::move(transport)),
      members_(std::move(members)),
      abort_cause_(std::move(abort_cause)),
      sent_(members_.size()),
      received_(members_.size()),
      headers_(2 * members_.size() * sizeof(Header)) {}

Status MessageCommunicator::Usable() {
  if (failure_.ok()) failure_ = abort_cause_->Get();
  return failure_;
}

Status MessageCommunicator::Fail(const Status& failure) {
  if (failure_.ok()) {
    failure_ = failure;
    transport_->Leave(failure);
  }
  return failure_;
}

void MessageCommunicator::Abort(const Status& cause) {
  if (abort_cause_->Set(cause)) transport_->Cancel();
}

Status MessageCommunicator::Explain(const Outcome& outcome, const std::string& what) {
  if (outcome.kind == Outcome::Kind::kDone) return OkStatus();
  if (outcome.kind == Outcome::Kind::kAborted) {
    const Status aborted = abort_cause_->Get();
    return Fail(!aborted.ok() ? aborted : Aborted(backend(), " was cancelled during ", what));
  }
  std::vector<Rank> ended;
  std::vector<Rank> left;
  std::vector<Rank> late;
  for (const Rank r : outcome.ranks) {
    const Rank world_rank = members_[static_cast<size_t>(r)];
    if (outcome.kind == Outcome::Kind::kExpired) {
      late.push_back(world_rank);
    } else if (const std::optional<Status> farewell = transport_->FarewellOf(r)) {
      // It has noticed before this rank what is wrong.
      if (!farewell->ok()) return Fail(*farewell);
      left.push_back(world_rank);
    } else {
      ended.push_back(world_rank);
    }
  }
  return Fail(DescribeAbsence(std::move(ended), std::move(left), std::move(late), what));
}

Status MessageCommunicator::DoBarrier(Deadline deadline) {
  return Meet({Call{.kind = Kind::kBarrier}}, Parts(size()), deadline);
}

std::unique_ptr<Communicator> MessageCommunicator::Among(const std::vector<Rank>& group_ranks) {
  std::vector<Rank> members;
  for (const Rank r : group_ranks) members.push_back(members_[static_cast<size_t>(r)]);
  return std::make_unique<MessageCommunicator>(
      std::make_unique<SomeRanks>(*transport_, group_ranks), std::move(members), abort_cause_);
}

StatusOr<std::unique_ptr<Communicator>> MessageCommunicator::DoSplit(
    absl::Span<const Rank> group_ranks, uint64_t tag, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  return SplitOff(group_ranks, tag, deadline, cancelled);
}

StatusOr<std::unique_ptr<MessageCommunicator>> MessageCommunicator::SplitOff(
    absl::Span<const Rank> group_ranks, uint64_t tag, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  // Not Usable(): a communicator that failed still can be split. One that was aborted cannot: who
  // aborts it does not know yet of what it would become.
  LOCKSTEP_RETURN_IF_ERROR(abort_cause_->Get());
  LOCKSTEP_RETURN_IF_ERROR(CheckSplit(group_ranks, rank(), size()));
  std::vector<Rank> members;
  for (const Rank r : group_ranks) members.push_back(members_[static_cast<size_t>(r)]);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                            transport_->Split(group_ranks, tag, cancelled, deadline));
  return std::make_unique<MessageCommunicator>(std::move(transport), std::move(members));
}

}  // namespace lockstep::collective::message
