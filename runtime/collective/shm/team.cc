#include "runtime/collective/shm/team.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace lockstep::collective::shm {
namespace {

// A member that was touching tensors of this rank when this rank stopped waiting for it. Stays
// counted in at the member's block, so that it can be watched after the team was closed.
//
// Threads: immutable.
class AbandonedPeer {
 public:
  AbandonedPeer(const Peer& peer, int entry, const Progress& progress)
      : peer_(peer), entry_(entry), progress_(progress) {
    peer_.directory().CountIn(entry);
  }
  ~AbandonedPeer() { peer_.directory().Close(entry_); }
  AbandonedPeer(const AbandonedPeer&) = delete;
  AbandonedPeer& operator=(const AbandonedPeer&) = delete;

  bool IsTouching() const {
    return progress_.touching.load(std::memory_order_seq_cst) != 0 && peer_.IsAlive();
  }

 private:
  const Peer peer_;
  const int entry_;
  const Progress& progress_;
};

}  // namespace

Team::Team(std::shared_ptr<ShmWorld> world, uint64_t key, std::vector<Rank> members, int rank,
           Directory::Found own)
    : world_(std::move(world)),
      key_(key),
      members_(std::move(members)),
      rank_(rank),
      size_(static_cast<int>(members_.size())),
      blocks_(members_.size()),
      entries_(members_.size(), kUnknown),
      waiter_(world_->wait(), world_->size(), Block(own.block, size_).attention()) {
  for (Rank member : members_) bases_.push_back(world_->peer(member).base());
  blocks_[static_cast<size_t>(rank)] = Block(own.block, size_);
  entries_[static_cast<size_t>(rank)] = own.entry;
}

Team::~Team() {
  // Peers that still wait for this rank need not wait for their deadlines.
  SayLeft();
  for (int r = 0; r < size_; ++r) {
    if (!HasKnownBlock(r)) continue;
    Directory directory = world_->peer(WorldRank(r)).directory();
    const int entry = entries_[static_cast<size_t>(r)];
    r == rank_ ? directory.CloseAsOwner(entry) : directory.Close(entry);
  }
}

StatusOr<std::unique_ptr<Team>> Team::Open(std::shared_ptr<ShmWorld> world, uint64_t key,
                                           std::vector<Rank> members, int rank, const Team* parent,
                                           const std::atomic<bool>* cancelled, Deadline deadline) {
  const size_t block_bytes = Block::SizeBytes(static_cast<int>(members.size()));
  const auto gives_up = [&] {
    return (parent != nullptr && parent->waiter_.aborted()) ||
           (cancelled != nullptr && cancelled->load(std::memory_order_acquire));
  };
  // A rank that is behind still has blocks open that this one has closed. It closes them on its
  // way, for which it needs nothing of this rank; and the one that is behind all others finds room.
  StatusOr<Directory::Found> own = ResourceExhausted("");
  Poll(
      [&] {
        const bool may_get_room = world->home().MayGetRoom();
        own = world->home().OpenBlock(key, block_bytes);
        return own.ok() || !may_get_room || gives_up();
      },
      deadline);
  LOCKSTEP_RETURN_IF_ERROR(own.status());
  std::unique_ptr<Team> team(new Team(std::move(world), key, std::move(members), rank, *own));
  // First all blocks are found; then, all ranks have found all blocks.
  Status status = team->Assemble([&](int r) { return team->FindBlock(r); }, gives_up, deadline);
  if (status.ok()) {
    team->own().progress().phase.store(++team->phase_, std::memory_order_release);
    const auto found_all = [&](int r) {
      return team->block(r).progress().phase.load(std::memory_order_acquire) >= 1;
    };
    status = team->Assemble(found_all, gives_up, deadline);
  }
  if (status.ok()) return team;
  const bool by_parent = parent != nullptr && parent->waiter_.aborted();
  return by_parent ? parent->waiter_.cause() : status;
}

template <typename Came, typename Cancelled>
Status Team::Assemble(Came came, Cancelled cancelled, Deadline deadline) {
  constexpr char kWhat[] = "the making of a communicator";
  std::vector<int> missing;
  const auto is_over = [&] {
    missing.clear();
    for (int r = 0; r < size_; ++r) {
      if (r != rank_ && !came(r)) missing.push_back(r);
    }
    return missing.empty() || cancelled();
  };
  while (!Poll(is_over, deadline.Earlier(Deadline::After(world_->wait().look_after)))) {
    if (deadline.Expired()) return Explain(Outcome::kExpired, missing, kWhat);
    // A rank that came and left since the last look has not failed: it was through before this one.
    const auto is_lost = [&](int r) { return IsAnyLost({r}, Look::kClosely) && !came(r); };
    if (std::any_of(missing.begin(), missing.end(), is_lost)) {
      return Explain(Outcome::kLost, missing, kWhat);
    }
  }
  return missing.empty() ? OkStatus() : Aborted(kWhat, " was cancelled");
}

bool Team::FindBlock(int r) {
  int& entry = entries_[static_cast<size_t>(r)];
  if (entry != kUnknown) return true;
  const auto found = world_->peer(WorldRank(r)).directory().Find(key_);
  if (!found.has_value()) return false;
  entry = found->entry;
  blocks_[static_cast<size_t>(r)] = Block(found->block, size_);
  return true;
}

void Team::NotifyAll() const {
  // Between what was published and the look at who sleeps; see Waiter::Sleep.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t self = NumberOf(rank_);
  for (int r = 0; r < size_; ++r) {
    if (r != rank_) Waiter::Wake(block(r).attention(), self);
  }
}

void Team::Notify(int r) const {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Waiter::Wake(block(r).attention(), NumberOf(rank_));
}

template <typename Arrived>
Status Team::AwaitAll(Arrived arrived, Deadline deadline) {
  // Ranks are looked at in a circle that begins after the own one, so that not all crowd on rank 0.
  int r = rank_;
  int left = size_ - 1;
  const auto step = [&] { r = r + 1 == size_ ? 0 : r + 1; };
  for (step(); left > 0; --left, step()) {
    if (!waiter_.Spin([&] { return arrived(r); })) break;
  }
  // Only now, because the fence in it would wait for the publishing store to reach the peers.
  NotifyAll();
  for (; left > 0; --left, step()) {
    const Outcome outcome = waiter_.Sleep([&] { return arrived(r); }, NumberOf(r), deadline,
                                          [&](Look look) { return IsAnyLost({r}, look); });
    if (outcome == Outcome::kReady) continue;
    std::vector<int> missing;
    for (int q = 0; q < size_; ++q) {
      if (q != rank_ && !arrived(q)) missing.push_back(q);
    }
    return Fail(Explain(outcome, missing, DescribeCall(rank_)));
  }
  return OkStatus();
}

Status Team::Meet(Deadline deadline) {
  const uint64_t seq = ++seq_;
  own().slot(seq).seq.store(seq, std::memory_order_release);
  LOCKSTEP_RETURN_IF_ERROR(
      AwaitAll([&](int r) { return block(r).slot(seq).seq.load(std::memory_order_acquire) >= seq; },
               deadline));
  return CompareCalls();
}

Status Team::CompareCalls() {
  const Slot& mine = SlotOf(rank_);
  bool agree = true;
  for (int r = 0; r < size_; ++r) {
    const Slot& theirs = SlotOf(r);
    agree &= theirs.call.Agrees(mine.call) && theirs.count == mine.count &&
             theirs.counts_hash == mine.counts_hash;
  }
  if (agree) [[likely]]
    return OkStatus();
  std::vector<std::string> descriptions;
  for (int r = 0; r < size_; ++r) descriptions.push_back(DescribeCall(r));
  return Fail(InvalidArgument(DescribeDisagreement(descriptions, members_)));
}

Status Team::BeginTouching() {
  // Sequentially consistent, as in Leave(): either we see that a rank left, or it sees us.
  own().progress().touching.store(1, std::memory_order_seq_cst);
  bool all_here = true;
  for (int r = 0; r < size_; ++r) all_here &= !HasLeft(r);
  if (all_here) [[likely]]
    return OkStatus();
  return FailTouching();
}

Status Team::FailTouching() {
  own().progress().touching.store(0, std::memory_order_release);
  std::vector<int> others(static_cast<size_t>(size_));
  std::iota(others.begin(), others.end(), 0);
  others.erase(others.begin() + rank_);
  return Fail(Explain(Outcome::kLost, others, DescribeCall(rank_)));
}

Status Team::FinishPhase(Deadline deadline) {
  const uint64_t phase = ++phase_;
  Progress& mine = own().progress();
  // A rank that abandons us says so before it uses its tensors for something else. The fence: if we
  // read that, we see this.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (mine.abandoned.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return FailTouching();
  mine.touching.store(0, std::memory_order_release);
  mine.phase.store(phase, std::memory_order_release);
  return AwaitAll(
      [&](int r) { return block(r).progress().phase.load(std::memory_order_acquire) >= phase; },
      deadline);
}

Status Team::Fail(const Status& failure) {
  if (failure_.ok()) {
    failure_ = failure;
    Leave();
  }
  return failure_;
}

bool Team::IsOff(int r) const {
  const Inbox& inbox = block(r).inbox(rank_);
  return block(r).progress().touching.load(std::memory_order_seq_cst) == 0 &&
         inbox.reading.load(std::memory_order_seq_cst) <=
             (inbox.taken.load(std::memory_order_seq_cst) & ~kRefused);
}

void Team::SayLeft() const {
  own().attention().left.store(1, std::memory_order_seq_cst);
  // As in NotifyAll.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const uint32_t self = NumberOf(rank_);
  for (int r = 0; r < size_; ++r) {
    if (r != rank_ && HasKnownBlock(r)) Waiter::Wake(block(r).attention(), self);
  }
}

void Team::Leave() {
  // A peer that is copying finishes soon, unless it was stopped or killed in the middle of it.
  constexpr auto kLongest = std::chrono::milliseconds(200);
  constexpr auto kLookAfter = std::chrono::milliseconds(20);
  SayLeft();
  const Deadline last = Deadline::After(kLongest);
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    while (!Poll([&] { return IsOff(r); }, last.Earlier(Deadline::After(kLookAfter)))) {
      if (IsDead(r)) break;
      if (last.Expired()) {
        Abandon(r);
        break;
      }
    }
  }
}

void Team::Abandon(int r) {
  // One that reads a message looks itself whether its sender has left, when it has read it.
  Progress& progress = block(r).progress();
  if (progress.touching.load(std::memory_order_seq_cst) == 0) return;
  progress.abandoned.store(1, std::memory_order_seq_cst);
  // What this rank writes into its tensors from now on becomes visible after that. The store alone
  // does not see to it: on arm64 later writes may overtake it. The other half: FinishPhase().
  std::atomic_thread_fence(std::memory_order_release);
  if (exposed_ == nullptr) return;
  abandoned_writing_ = true;
  const auto abandoned = std::make_shared<const AbandonedPeer>(
      world_->peer(WorldRank(r)), entries_[static_cast<size_t>(r)], progress);
  arena().HoldBack(exposed_, [abandoned] { return abandoned->IsTouching(); });
}

std::string Team::DescribeCall(int r) const {
  if (r == rank_ && !whole_.empty()) return whole_;
  const Slot& slot = SlotOf(r);
  return Describe(slot.call, slot.count, CountsOf(r).first(static_cast<size_t>(size_)),
                  WorldRank(slot.call.root));
}

bool Team::IsAnyLost(absl::Span<const int> ranks, Look look) const {
  return std::any_of(ranks.begin(), ranks.end(), [&](int r) {
    return (HasKnownBlock(r) && HasLeft(r)) || (look == Look::kClosely && IsDead(r));
  });
}

Status Team::Explain(Outcome outcome, absl::Span<const int> missing,
                     const std::string& what) const {
  if (outcome == Outcome::kAborted) return waiter_.cause();
  std::vector<Rank> late;
  std::vector<Rank> dead;
  std::vector<Rank> left;
  for (int r : missing) {
    const Rank world_rank = WorldRank(r);
    late.push_back(world_rank);
    if (IsDead(r)) {
      dead.push_back(world_rank);
    } else if (HasKnownBlock(r) && HasLeft(r)) {
      left.push_back(world_rank);
    }
  }
  return DescribeAbsence(std::move(dead), std::move(left), std::move(late), what);
}

}  // namespace lockstep::collective::shm
