#include "runtime/client/unpaired_messages.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "runtime/base/rank_text.h"

namespace lockstep::client {
namespace {

std::vector<Rank> RanksFrom(Rank first, int count) {
  std::vector<Rank> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

}  // namespace

UnpairedMessages::UnpairedMessages(int num_workers, int num_groups)
    : num_workers_(num_workers), group_size_(num_workers / std::max(num_groups, 1)) {}

void UnpairedMessages::Clear() {
  commands_.clear();
  behind_.clear();
}

std::vector<Rank> UnpairedMessages::MembersOf(const OperationUse& use) const {
  if (use.kind == OperationKind::kTransfer) return {use.root, use.peer};
  if (!use.team.empty()) return {use.team.begin(), use.team.end()};
  return RanksFrom(0, num_workers_);
}

// A rank that waits for its partner does not go on before the missing half, which is issued later
// than this operation. Nor does it before all ranks between it and the last group (of sends; of
// receives: the first group) at the same places of theirs have come to that half: each passes its
// message on only then. If one of those takes part in this operation, it has to be through with
// that before; so it must not need the first rank there.
Status UnpairedMessages::FindCircle(const OperationUse& use) const {
  const DataFlow flow = FactsOf(use.kind).flow;
  if (flow == DataFlow::kToNextGroup || use.in_group) return OkStatus();
  const std::vector<Rank> members = MembersOf(use);
  std::optional<Rank> blocker;
  if (flow == DataFlow::kFromRoot || flow == DataFlow::kToRoot) {
    const Rank root = members[static_cast<size_t>(use.root)];
    // Who needs whom: the others the root, or the root the others.
    const bool root_is_needed = flow == DataFlow::kFromRoot;
    for (const Rank other : members) {
      const Rank needed = root_is_needed ? root : other;
      const Rank needs_it = root_is_needed ? other : root;
      const bool is_partner = other != root && other % group_size_ == root % group_size_ &&
                              (needed < needs_it) == sends_;
      if (is_partner) blocker = needed;
    }
  } else {
    std::vector<Rank> at_place(static_cast<size_t>(group_size_), -1);
    for (const Rank rank : members) {
      Rank& before = at_place[static_cast<size_t>(rank % group_size_)];
      if (before >= 0) {
        blocker = sends_ ? std::min(before, rank) : std::max(before, rank);
        break;
      }
      before = rank;
    }
  }
  if (!blocker.has_value()) return OkStatus();
  return FailedPrecondition(FactsOf(use.kind).name, " would never end: ", Describe({*blocker}),
                            " before; issue ", MissingCall(), " first, or Reset()");
}

void UnpairedMessages::Note(const OperationUse& use, uint64_t command) {
  if (FactsOf(use.kind).flow == DataFlow::kToNextGroup) {
    return NoteMessage(use.kind == OperationKind::kSendToNextGroup, command);
  }
  if (!use.in_group) return HoldUp(MembersOf(use), use, command);
  // All ranks of a group wait for their partners, or none; so only others can hold one up.
  if (behind_.empty()) return;
  for (Rank first = 0; first < num_workers_; first += group_size_) {
    HoldUp(RanksFrom(first, group_size_), use, command);
  }
}

void UnpairedMessages::NoteMessage(bool is_send, uint64_t command) {
  if (group_size_ >= num_workers_) return;  // in one group nothing is sent
  if (commands_.empty() || is_send == sends_) {
    const std::thread::id self = std::this_thread::get_id();
    if (commands_.empty()) thread_ = self;
    if (thread_ != self) thread_ = std::thread::id();
    sends_ = is_send;
    commands_.push_back(command);
    return;
  }
  commands_.pop_front();
  // Those that a rank held up in the message that has been paired may go on now.
  behind_.clear();
}

void UnpairedMessages::HoldUp(absl::Span<const Rank> members, const OperationUse& use,
                              uint64_t command) {
  const DataFlow flow = FactsOf(use.kind).flow;
  const auto root = static_cast<size_t>(use.root);
  const auto needed = flow == DataFlow::kFromRoot ? members.subspan(root, 1) : members;
  const auto held =
      std::find_if(needed.begin(), needed.end(), [&](Rank rank) { return IsHeldUp(rank); });
  if (held == needed.end()) return;
  const auto found = behind_.find(*held);
  const Rank blocker = found == behind_.end() ? *held : found->second.blocker;
  for (const Rank rank : flow == DataFlow::kToRoot ? members.subspan(root, 1) : members) {
    if (!IsHeldUp(rank)) behind_[rank] = {blocker, command, use.kind};
  }
}

std::string UnpairedMessages::Describe(absl::Span<const Rank> ranks) const {
  std::vector<Rank> partners(ranks.begin(), ranks.end());
  for (Rank& partner : partners) partner += sends_ ? group_size_ : -group_size_;
  const bool is_one = ranks.size() == 1;
  const char* const verb = sends_ ? (is_one ? " sends to " : " send to ")
                                  : (is_one ? " receives from " : " receive from ");
  std::string text = ListRanks(ranks) + verb + ListRanks(partners) + " (" +
                     (sends_ ? "SendToNextGroup" : "ReceiveFromPreviousGroup") + ", command " +
                     std::to_string(commands_.front());
  if (commands_.size() > 1) text += " and " + std::to_string(commands_.size() - 1) + " more";
  return text + (sends_ ? "), but nothing receives it there" : "), but nothing is sent there");
}

Status UnpairedMessages::CheckWait(Rank rank) const {
  if (IsEmpty() || std::this_thread::get_id() != thread_) return OkStatus();
  if (rank < 0) return CheckEnd();
  const auto behind = behind_.find(rank);
  std::string why;
  if (WaitsForPartner(rank)) {
    why = Describe({rank});
  } else if (behind != behind_.end()) {
    why = "rank " + std::to_string(rank) + " waits in " +
          std::string(FactsOf(behind->second.kind).name) + " (command " +
          std::to_string(behind->second.command) + ") for rank " +
          std::to_string(behind->second.blocker) + ", and " + Describe({behind->second.blocker});
  } else {
    return OkStatus();
  }
  return FailedPrecondition(why, ": issue ", MissingCall(), " before waiting, or Reset()");
}

Status UnpairedMessages::CheckEnd() const {
  if (IsEmpty()) return OkStatus();
  const Rank first = sends_ ? 0 : group_size_;
  return FailedPrecondition(Describe(RanksFrom(first, num_workers_ - group_size_)), ": issue ",
                            MissingCall(), " before waiting, or Reset()");
}

}  // namespace lockstep::client
