// What a session sends from group to group and does not receive yet, or the other way round.
//
// A send waits until its receiver has come to the receive, and a receive waits for its sender. All
// ranks execute the session's commands in one order, so it can be told which ranks do not come
// beyond a SendToNextGroup() before its ReceiveFromPreviousGroup() is issued. A program that waits
// for one of those ranks would wait until the collective_timeout; so would a collective that needs
// both ends of such a pair before the other half.
//
// Only what is certain, for each backend and whatever is issued later, is refused. Circles through
// several collectives of different teams are not looked for: the deadline ends those.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/ids.h"
#include "runtime/base/operations.h"
#include "runtime/base/status.h"

namespace lockstep::client {

// An operation among workers, which the session has checked.
struct OperationUse {
  OperationKind kind = OperationKind::kBarrier;
  bool in_group = false;
  absl::Span<const Rank> team = {};  // if not empty: these ranks alone take part
  Rank root = 0;                     // counted among those that take part
  Rank peer = 0;                     // who receives a transfer
};

// Of one generation of a session.
//
// Threads: one at a time: its owner's lock is held. The calling thread counts, see CheckWait().
class UnpairedMessages {
 public:
  // `num_workers` ranks in equal contiguous groups.
  UnpairedMessages(int num_workers, int num_groups);

  // Each send has its receive, and each receive its send.
  bool IsEmpty() const { return commands_.empty(); }

  // kFailedPrecondition for an operation that could never end, because it needs a rank that is held
  // up until another of its ranks, which it holds up itself, comes to the missing half.
  Status CheckOperation(const OperationUse& use) const {
    if (IsEmpty()) [[likely]]
      return OkStatus();
    return FindCircle(use);
  }
  // The operation is issued as this command.
  void Add(const OperationUse& use, uint64_t command) {
    if (IsEmpty() && FactsOf(use.kind).flow != DataFlow::kToNextGroup) [[likely]]
      return;
    Note(use, command);
  }

  // kFailedPrecondition if `rank` (-1: one of all) does not come to a command that is issued now
  // before the missing half is. OK where that half may come from another thread: where the calling
  // one has not issued all that is unpaired.
  Status CheckWait(Rank rank) const;
  // kFailedPrecondition if anything is unpaired: for what ends the session for all threads.
  Status CheckEnd() const;

  // A new generation begins.
  void Clear();

 private:
  // A rank that is held up in an operation with one that waits for its partner.
  struct Behind {
    Rank blocker = 0;  // waits for its partner
    uint64_t command = 0;
    OperationKind kind = OperationKind::kBarrier;
  };

  Status FindCircle(const OperationUse& use) const;
  void Note(const OperationUse& use, uint64_t command);
  void NoteMessage(bool is_send, uint64_t command);
  // Members that wait for one that is held up are so, too.
  void HoldUp(absl::Span<const Rank> members, const OperationUse& use, uint64_t command);
  std::vector<Rank> MembersOf(const OperationUse& use) const;

  // It waits itself for its partner: all ranks but those of the last group (of sends) or of the
  // first one (of receives).
  bool WaitsForPartner(Rank rank) const {
    return sends_ ? rank + group_size_ < num_workers_ : rank >= group_size_;
  }
  bool IsHeldUp(Rank rank) const { return WaitsForPartner(rank) || behind_.contains(rank); }
  // "rank 0 sends to rank 2 (SendToNextGroup, command 17), but nothing receives it there", of these
  // ranks, which wait for their partners.
  std::string Describe(absl::Span<const Rank> ranks) const;
  const char* MissingCall() const {
    return sends_ ? "ReceiveFromPreviousGroup" : "SendToNextGroup";
  }

  const int num_workers_;
  const int group_size_;
  // Numbers of the commands without a partner, all sends or all receives: they are paired in order.
  std::deque<uint64_t> commands_;
  bool sends_ = false;
  std::thread::id thread_;         // that has issued all of them; none: several have
  std::map<Rank, Behind> behind_;  // by rank, of those that do not wait for partners themselves
};

}  // namespace lockstep::client
