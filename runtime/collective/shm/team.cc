#include "runtime/collective/shm/team.h"

#include <algorithm>
#include <utility>

#include "runtime/collective/shm/poll.h"

namespace lockstep::collective::shm {

Team::Team(std::shared_ptr<World> world, uint64_t key, std::vector<Rank> members, int rank,
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
  for (int r = 0; r < size_; ++r) {
    const int entry = entries_[static_cast<size_t>(r)];
    if (entry != kUnknown) world_->peer(WorldRank(r)).directory().Close(entry);
  }
}

StatusOr<std::unique_ptr<Team>> Team::Open(std::shared_ptr<World> world, uint64_t key,
                                           std::vector<Rank> members, int rank,
                                           const Team* parent,
                                           const std::atomic<bool>* cancelled,
                                           Deadline deadline) {
  const int size = static_cast<int>(members.size());
  LOCKSTEP_ASSIGN_OR_RETURN(const Directory::Found own,
                            world->home().OpenBlock(key, size, Block::SizeBytes(size)));
  std::unique_ptr<Team> team(new Team(std::move(world), key, std::move(members), rank, own));
  const auto aborted = [&] {
    return (parent != nullptr && parent->waiter_.aborted()) ||
           (cancelled != nullptr && cancelled->load(std::memory_order_acquire));
  };

  // First phase: all blocks are found. Second: all ranks have found all blocks.
  std::vector<int> missing;
  const auto all = [&](auto came) {
    missing.clear();
    for (int r = 0; r < size; ++r) {
      if (r != rank && !came(r)) missing.push_back(r);
    }
    return missing.empty() || aborted();
  };
  bool complete = Poll([&] { return all([&](int r) { return team->FindBlock(r); }); }, deadline);
  if (complete && !aborted()) {
    team->own().progress().phase.store(++team->phase_, std::memory_order_release);
    complete = Poll(
        [&] {
          return all([&](int r) {
            return team->block(r).progress().phase.load(std::memory_order_acquire) >= 1;
          });
        },
        deadline);
  }
  if (aborted()) {
    return parent != nullptr && parent->waiter_.aborted()
               ? parent->Usable()
               : Aborted("the making of a communicator was cancelled");
  }
  if (!complete) {
    return team->Explain(Outcome::kExpired, missing,
                         "the making of communicator " + std::to_string(key % 10000));
  }
  return team;
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
    const Outcome outcome =
        waiter_.Sleep([&] { return arrived(r); }, NumberOf(r), deadline,
                      [&] { return !FindDead({r}).empty(); });
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
  LOCKSTEP_RETURN_IF_ERROR(AwaitAll(
      [&](int r) { return block(r).slot(seq).seq.load(std::memory_order_acquire) >= seq; },
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
  if (agree) [[likely]] return OkStatus();
  std::vector<std::string> descriptions;
  for (int r = 0; r < size_; ++r) descriptions.push_back(DescribeCall(r));
  return Fail(InvalidArgument(DescribeDisagreement(descriptions, members_)));
}

Status Team::BeginTouching() {
  // Sequentially consistent, as in Leave(): either we see that a rank left, or it sees us.
  own().progress().touching.store(1, std::memory_order_seq_cst);
  for (int r = 0; r < size_; ++r) {
    if (!HasLeft(r)) [[likely]] continue;
    own().progress().touching.store(0, std::memory_order_release);
    return Fail(Unavailable("rank ", WorldRank(r), " gave up during ", DescribeCall(rank_)));
  }
  return OkStatus();
}

Status Team::FinishPhase(Deadline deadline) {
  const uint64_t phase = ++phase_;
  Progress& mine = own().progress();
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

void Team::Leave() {
  // A peer that is copying finishes soon, unless it was stopped or killed in the middle of it.
  constexpr auto kLongest = std::chrono::seconds(10);
  constexpr auto kLookAfter = std::chrono::milliseconds(20);
  own().attention().left.store(1, std::memory_order_seq_cst);
  const Deadline last = Deadline::After(kLongest);
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    while (!Poll([&] { return IsOff(r); }, last.Earlier(Deadline::After(kLookAfter)))) {
      if (last.Expired() || !world_->peer(WorldRank(r)).IsAlive()) break;
    }
  }
}

std::string Team::DescribeCall(int r) const {
  const Slot& slot = SlotOf(r);
  return Describe(slot.call, slot.count, CountsOf(r).first(static_cast<size_t>(size_)),
                  WorldRank(slot.call.root));
}

std::vector<Rank> Team::FindDead(absl::Span<const int> ranks) const {
  std::vector<Rank> dead;
  for (int r : ranks) {
    if (!world_->peer(WorldRank(r)).IsAlive()) dead.push_back(WorldRank(r));
  }
  return dead;
}

Status Team::Explain(Outcome outcome, absl::Span<const int> missing,
                     const std::string& what) const {
  std::vector<Rank> world_ranks;
  for (int r : missing) world_ranks.push_back(WorldRank(r));
  std::sort(world_ranks.begin(), world_ranks.end());
  if (outcome == Outcome::kAborted) return waiter_.cause();
  if (outcome == Outcome::kLost) {
    return Unavailable(NameRanks(FindDead(missing)), " ended during ", what);
  }
  return DeadlineExceeded(NameRanks(world_ranks), " did not come to ", what, " in time");
}

}  // namespace lockstep::collective::shm
