#include "runtime/collective/shm/shm_communicator.h"

#include <algorithm>
#include <utility>

#include "runtime/collective/checks.h"

namespace lockstep::collective::shm {

ShmCommunicator::ShmCommunicator(std::unique_ptr<Team> team)
    : team_(std::move(team)),
      mailbox_(*team_),
      sources_(static_cast<size_t>(team_->size())),
      destinations_(static_cast<size_t>(team_->size())) {}

StatusOr<std::unique_ptr<Communicator>> ShmCommunicator::DoSplit(
    absl::Span<const Rank> group_ranks, uint64_t tag, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  // Not Usable(): a communicator that failed still can be split.
  LOCKSTEP_RETURN_IF_ERROR(CheckSplit(group_ranks, rank(), size()));
  uint64_t key = Mix(team_->key(), tag);
  std::vector<Rank> world_ranks;
  int new_rank = 0;
  for (size_t i = 0; i < group_ranks.size(); ++i) {
    key = Mix(key, static_cast<uint64_t>(group_ranks[i]));
    world_ranks.push_back(team_->WorldRank(group_ranks[i]));
    if (group_ranks[i] == rank()) new_rank = static_cast<int>(i);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto team, Team::Open(team_->world(), std::max<uint64_t>(key, 1), std::move(world_ranks),
                            new_rank, team_.get(), cancelled, deadline));
  return std::make_unique<ShmCommunicator>(std::move(team));
}

Status ShmCommunicator::DoBarrier(Deadline deadline) {
  Exchange x(*team_, Call{.kind = Kind::kBarrier}, {}, {}, {});
  return x.Begin(deadline);
}

Status ShmCommunicator::DoSend(ConstBuffer send, Rank to, Deadline deadline) {
  return mailbox_.Send(send, to, deadline);
}

Status ShmCommunicator::DoRecv(Buffer recv, Rank from, Deadline deadline) {
  return mailbox_.Recv(recv, from, deadline);
}

Status ShmCommunicator::DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from,
                                   Deadline deadline) {
  return mailbox_.SendRecv(send, to, recv, from, deadline);
}

}  // namespace lockstep::collective::shm
