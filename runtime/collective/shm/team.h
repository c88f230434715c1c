// The ranks of one communicator: their blocks, and the ways to meet.
//
// An operation begins with Meet(): every rank publishes a slot and reads all others'. Small data
// rides along, and the operation is over. Large operations then work on each other's tensors,
// between BeginTouching() and FinishPhase(), which returns when all ranks have come as far.
//
// Two slots per rank suffice: a rank fills slot n+2 only after it met all others in n+1, and they
// published n+1 only after they were through with n.
//
// A rank that fails leaves the team: no other rank touches its tensors from then on, and it waits
// for those that do already. One that does not finish soon (its process was stopped) is abandoned:
// what it may still write to is held back in the arena until it is through or has ended, and its
// own operation will fail, because what it reads may have changed.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/shm/block.h"
#include "runtime/collective/shm/shm_world.h"
#include "runtime/collective/shm/waiter.h"

namespace lockstep::collective::shm {

// Threads: one at a time, but for Abort().
class Team {
 public:
  // Opens this rank's block under `key` and finds the blocks of the other members. Returns when all
  // members have come, or `parent` is aborted, or `cancelled` is true (both may be null).
  static StatusOr<std::unique_ptr<Team>> Open(std::shared_ptr<ShmWorld> world, uint64_t key,
                                              std::vector<Rank> members, int rank,
                                              const Team* parent,
                                              const std::atomic<bool>* cancelled,
                                              Deadline deadline);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  uint64_t key() const { return key_; }
  const std::vector<Rank>& members() const { return members_; }
  Rank WorldRank(int r) const { return members_[static_cast<size_t>(r)]; }
  const std::shared_ptr<ShmWorld>& world() const { return world_; }
  tensor::Arena& arena() const { return world_->home().arena(); }

  // The first failure, or the cause of an abort; OK if the team can be used.
  Status Usable() const {
    if (failure_.ok() && waiter_.aborted()) [[unlikely]]
      return waiter_.cause();
    return failure_;
  }
  void Abort(const Status& cause) { waiter_.Abort(cause); }
  // Errors tell of `whole` instead of this rank's operations, unless it is empty.
  void ReportAs(std::string whole) { whole_ = std::move(whole); }
  // Leaves the team and returns `failure`, as every later operation will.
  Status Fail(const Status& failure);

  // The slot to fill in before Meet(), and where else its data goes.
  Slot& NextSlot() const { return own().slot(seq_ + 1); }
  std::byte* NextPayload() const { return own().payload(seq_ + 1); }
  absl::Span<int64_t> NextCounts() const { return own().counts(seq_ + 1); }
  // Publishes the slot, waits for those of all ranks, and compares them.
  Status Meet(Deadline deadline);
  // What rank `r` published for the operation in progress.
  const Slot& SlotOf(int r) const { return block(r).slot(seq_); }
  const std::byte* PayloadOf(int r) const { return block(r).payload(seq_); }
  absl::Span<const int64_t> CountsOf(int r) const { return block(r).counts(seq_); }

  // The byte at `offset` of the arena of rank `r`.
  std::byte* At(int r, uint64_t offset) const { return bases_[static_cast<size_t>(r)] + offset; }

  // Where in the own arena peers may write to during the next operation; null if nowhere.
  void Expose(const void* recv) { exposed_ = recv; }
  // True once the team has failed while a peer wrote there, and left it unfinished.
  bool WasAbandonedWriting() const { return abandoned_writing_; }

  // From here to FinishPhase() the tensors of the others may be touched.
  Status BeginTouching();
  // Returns when all ranks have finished as many phases.
  Status FinishPhase(Deadline deadline);

  // For messages between two ranks.
  Block block(int r) const { return blocks_[static_cast<size_t>(r)]; }
  Block own() const { return blocks_[static_cast<size_t>(rank_)]; }
  // Tells rank `r`, should it sleep, that there is news from this rank.
  void Notify(int r) const;
  bool HasLeft(int r) const {
    return block(r).attention().left.load(std::memory_order_seq_cst) != 0;
  }
  // Waits until `ready()`, which the ranks in `awaited` make true. `what` completes the sentence
  // "rank 3 did not come to ...".
  template <typename Ready>
  Status WaitFor(Ready ready, absl::Span<const int> awaited, const char* what, Deadline deadline) {
    if (waiter_.Spin(ready)) return OkStatus();
    const uint32_t whom = awaited.size() == 1 ? NumberOf(awaited[0]) : kAnyRank;
    const Outcome outcome =
        waiter_.Sleep(ready, whom, deadline, [&](Look look) { return IsAnyLost(awaited, look); });
    return outcome == Outcome::kReady ? OkStatus() : Fail(Explain(outcome, awaited, what));
  }

 private:
  Team(std::shared_ptr<ShmWorld> world, uint64_t key, std::vector<Rank> members, int rank,
       Directory::Found own);

  // How waiting_for names a rank.
  static uint32_t NumberOf(int r) { return static_cast<uint32_t>(r) + 1; }
  // Looks for the block of rank `r`; true once it is known.
  bool FindBlock(int r);
  // Waits until `came(r)` for every other rank, or `cancelled()`. For Open(), before there are
  // bells.
  template <typename Came, typename Cancelled>
  Status Assemble(Came came, Cancelled cancelled, Deadline deadline);
  Status CompareCalls();
  // Waits until `arrived(r)` for every other rank.
  template <typename Arrived>
  Status AwaitAll(Arrived arrived, Deadline deadline);
  void NotifyAll() const;
  // Tells all others that this rank takes part in nothing any more.
  void SayLeft() const;
  void Leave();
  // Gives up waiting for rank `r`, which is in the middle of touching this rank's tensors.
  void Abandon(int r);
  // Ends the touching without a result.
  Status FailTouching();
  // True once rank `r` does not touch this rank's tensors any more.
  bool IsOff(int r) const;
  std::string DescribeCall(int r) const;
  // True if waiting for one of `ranks` is in vain: it left the team, or its process has ended.
  bool IsAnyLost(absl::Span<const int> ranks, Look look) const;
  bool IsDead(int r) const { return !world_->peer(WorldRank(r)).IsAlive(); }
  bool HasKnownBlock(int r) const { return entries_[static_cast<size_t>(r)] != kUnknown; }
  // Why waiting for the ranks in `missing` ended: by those that are lost, if any is.
  Status Explain(Outcome outcome, absl::Span<const int> missing, const std::string& what) const;

  const std::shared_ptr<ShmWorld> world_;
  const uint64_t key_;
  const std::vector<Rank> members_;  // world ranks
  const int rank_;
  const int size_;
  std::vector<std::byte*> bases_;  // of the arenas
  std::vector<Block> blocks_;
  std::vector<int> entries_;  // in the arenas' directories; kUnknown until found
  Waiter waiter_;
  std::string whole_;
  uint64_t seq_ = 0;
  uint64_t phase_ = 0;
  Status failure_;
  const void* exposed_ = nullptr;
  bool abandoned_writing_ = false;

  static constexpr int kUnknown = -1;
};

}  // namespace lockstep::collective::shm
