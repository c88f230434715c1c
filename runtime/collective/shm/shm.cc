#include "runtime/collective/shm/shm.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/collective/call.h"
#include "runtime/collective/checks.h"
#include "runtime/collective/communicator.h"
#include "runtime/collective/operation.h"
#include "runtime/collective/shm/exchange.h"
#include "runtime/collective/shm/mailbox.h"
#include "runtime/collective/shm/movements.h"
#include "runtime/collective/shm/reductions.h"
#include "runtime/collective/shm/shm_world.h"
#include "runtime/collective/shm/team.h"

namespace lockstep::collective::shm {

// The operations of a communicator: Reductions and Movements, on top of Exchange, and Mailbox.
class ShmCommunicator final : public Communicator {
 public:
  explicit ShmCommunicator(std::unique_ptr<Team> team);

  Rank rank() const override { return team_->rank(); }
  int size() const override { return team_->size(); }
  absl::Span<const Rank> members() const override { return team_->members(); }
  std::string_view backend() const override { return "shm"; }

  Status Usable() override { return team_->Usable(); }
  bool RecvMayStillChange() const override { return team_->WasAbandonedWriting(); }
  void ReportAs(std::string whole) override { team_->ReportAs(std::move(whole)); }
  void Leave(const Status& why) override { (void)team_->Fail(why); }
  void Abort(const Status& cause) override { team_->Abort(cause); }

 protected:
  Status DoRun(const Operation& operation, Deadline deadline) override {
    return Dispatch(*this, operation, deadline);
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank> group_ranks, uint64_t tag,
                                                  Deadline deadline,
                                                  const std::atomic<bool>* cancelled) override;

 private:
  friend Status Dispatch<ShmCommunicator>(ShmCommunicator&, const Operation&, Deadline);
  Status DoAllReduce(ConstBuffer send, Buffer recv, ReduceOp op, Deadline deadline) {
    return reductions_.AllReduce(send, recv, op, deadline);
  }
  Status DoReduce(ConstBuffer send, Buffer recv, ReduceOp op, Rank root, Deadline deadline) {
    return reductions_.Reduce(send, recv, op, root, deadline);
  }
  Status DoReduceScatter(ConstBuffer send, Buffer recv, Counts counts, ReduceOp op,
                         Deadline deadline) {
    return reductions_.ReduceScatter(send, recv, counts, op, deadline);
  }
  Status DoBroadcast(ConstBuffer send, Buffer recv, Rank root, Deadline deadline) {
    return movements_.Broadcast(send, recv, root, deadline);
  }
  Status DoAllGather(ConstBuffer send, Buffer recv, Counts counts, Deadline deadline) {
    return movements_.AllGather(send, recv, counts, deadline);
  }
  Status DoGather(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline) {
    return movements_.Gather(send, recv, counts, root, deadline);
  }
  Status DoScatter(ConstBuffer send, Buffer recv, Counts counts, Rank root, Deadline deadline) {
    return movements_.Scatter(send, recv, counts, root, deadline);
  }
  Status DoAllToAll(ConstBuffer send, Counts send_counts, Buffer recv, Counts recv_counts,
                    Deadline deadline) {
    return movements_.AllToAll(send, send_counts, recv, recv_counts, deadline);
  }
  Status DoSend(ConstBuffer send, Rank to, Deadline deadline) {
    return mailbox_.Send(send, to, deadline);
  }
  Status DoRecv(Buffer recv, Rank from, Deadline deadline) {
    return mailbox_.Recv(recv, from, deadline);
  }
  Status DoSendRecv(ConstBuffer send, Rank to, Buffer recv, Rank from, Deadline deadline) {
    return mailbox_.SendRecv(send, to, recv, from, deadline);
  }
  Status DoBarrier(Deadline deadline);

  const std::unique_ptr<Team> team_;
  Reductions reductions_;
  Movements movements_;
  Mailbox mailbox_;
};

ShmCommunicator::ShmCommunicator(std::unique_ptr<Team> team)
    : team_(std::move(team)), reductions_(*team_), movements_(*team_), mailbox_(*team_) {}

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

namespace {

constexpr char kDirectory[] = "/dev/shm";

Status Check(const Options& options) {
  const int size = static_cast<int>(options.arena_names.size());
  if (options.rank < 0 || options.rank >= size) {
    return InvalidArgument("rank ", options.rank, " is not one of the ", size,
                           " ranks whose arenas are named");
  }
  if (options.arena == nullptr) return InvalidArgument("rank ", options.rank, " has no arena");
  const std::string& own = options.arena_names[static_cast<size_t>(options.rank)];
  if (own != options.arena->name()) {
    return InvalidArgument("the arena of rank ", options.rank, " is ", options.arena->name(),
                           ", but the list of arenas says ", own);
  }
  std::vector<Rank> members = options.members;
  std::sort(members.begin(), members.end());
  if (!members.empty() && (members.front() < 0 || members.back() >= size ||
                           std::adjacent_find(members.begin(), members.end()) != members.end() ||
                           !std::binary_search(members.begin(), members.end(), options.rank))) {
    return InvalidArgument("the members are no list of different ranks of ", size, " with rank ",
                           options.rank, " among them");
  }
  std::vector<std::string> sorted = options.arena_names;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return InvalidArgument("two ranks have the arena ", *twice);
  return OkStatus();
}

}  // namespace

Status Available() {
  if (access(kDirectory, R_OK | W_OK | X_OK) != 0) {
    return Unavailable("shared memory cannot be used: ", kDirectory, ": ", std::strerror(errno));
  }
  struct statvfs info {};
  if (statvfs(kDirectory, &info) != 0) {
    return Unavailable("shared memory cannot be used: ", kDirectory, ": ", std::strerror(errno));
  }
  // What an arena sets aside at first; less would fail at once.
  constexpr unsigned long kLeastBytes = 5ul << 20;
  const unsigned long free_bytes = info.f_bavail * info.f_frsize;
  if (free_bytes < kLeastBytes) {
    return Unavailable("shared memory cannot be used: ", kDirectory, " has only ", free_bytes,
                       " bytes left");
  }
  return OkStatus();
}

Status TryToReach(const std::string& arena_name) {
  if (arena_name.empty()) return Unavailable("it has no shared memory");
  if (LocalArena::Find(arena_name) != nullptr) return OkStatus();
  return SharedSegment::Open(arena_name).status();
}

StatusOr<std::unique_ptr<Communicator>> Connect(const Options& options, Deadline deadline,
                                                const std::atomic<bool>* cancelled) {
  LOCKSTEP_RETURN_IF_ERROR(Check(options));
  LOCKSTEP_ASSIGN_OR_RETURN(auto world, ShmWorld::Connect(options, cancelled, deadline));
  std::vector<Rank> members = options.Members();
  uint64_t key = Mix(Mix(0, options.world), members.size());
  for (const Rank member : members) key = Mix(key, static_cast<uint64_t>(member));
  const auto self = std::find(members.begin(), members.end(), options.rank) - members.begin();
  LOCKSTEP_ASSIGN_OR_RETURN(
      auto team, Team::Open(std::move(world), std::max<uint64_t>(key, 1), std::move(members),
                            static_cast<int>(self), nullptr, cancelled, deadline));
  return std::make_unique<ShmCommunicator>(std::move(team));
}

}  // namespace lockstep::collective::shm
