#include "runtime/collective/message/round_runner.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/collective/checks.h"

namespace lockstep::collective::message {
namespace {

// What is told of a disagreement.
constexpr size_t kTextBytes = 1024;

absl::Span<const std::byte> BytesOf(absl::Span<const int64_t> numbers) {
  return {reinterpret_cast<const std::byte*>(numbers.data()), numbers.size() * sizeof(int64_t)};
}

}  // namespace

// What ranks tell each other before they exchange data. Of fixed size, so that ranks which disagree
// understand each other all the same.
struct RoundRunner::Header {
  Call call;
  uint64_t count = 0;
  uint64_t counts_hash = 0;
  // The part that goes to this rank, if it is small enough.
  std::byte data[kInlineBytes] = {};
};

RoundRunner::RoundRunner(std::unique_ptr<Transport> transport, std::vector<Rank> members,
                         std::shared_ptr<AbortCause> abort_cause)
    : transport_(std::move(transport)),
      members_(std::move(members)),
      abort_cause_(std::move(abort_cause)),
      headers_(2 * members_.size() * sizeof(Header)) {}

Status RoundRunner::Usable() {
  if (failure_.ok()) failure_ = abort_cause_->Get();
  return failure_;
}

Status RoundRunner::Fail(const Status& failure) {
  if (failure_.ok()) {
    failure_ = failure;
    transport_->Leave(failure);
  }
  return failure_;
}

void RoundRunner::Abort(const Status& cause) {
  if (abort_cause_->Set(cause)) transport_->Cancel();
}

Status RoundRunner::Explain(const Outcome& outcome, const std::string& what) {
  if (outcome.kind == Outcome::Kind::kDone) return OkStatus();
  if (outcome.kind == Outcome::Kind::kAborted) {
    const Status aborted = abort_cause_->Get();
    return Fail(!aborted.ok() ? aborted
                              : Aborted(transport_->name(), " was cancelled during ", what));
  }
  std::vector<Rank> ended;
  std::vector<Rank> left;
  std::vector<Rank> late;
  for (const Rank r : outcome.ranks) {
    const Rank world_rank = members_[static_cast<size_t>(r)];
    if (outcome.kind == Outcome::Kind::kExpired) {
      late.push_back(world_rank);
    } else if (const std::optional<Status> leave_reason = transport_->LeaveReasonOf(r)) {
      // It has noticed before this rank what is wrong.
      if (!leave_reason->ok()) return Fail(*leave_reason);
      left.push_back(world_rank);
    } else {
      ended.push_back(world_rank);
    }
  }
  return Fail(DescribeAbsence(std::move(ended), std::move(left), std::move(late), what));
}

RoundRunner::Header& RoundRunner::HeaderTo(int r) {
  return reinterpret_cast<Header*>(headers_.data())[r];
}

const RoundRunner::Header& RoundRunner::HeaderFrom(int r) const {
  return reinterpret_cast<const Header*>(headers_.data())[size() + r];
}

Status RoundRunner::Meet(const Announcement& announced, const Parts& parts, Deadline deadline) {
  Call call = announced.call;
  uint64_t hash = 0;
  const bool pairs_differ = call.kind == Kind::kAllToAll;
  if (!pairs_differ) {
    for (const int64_t count : announced.counts) {
      hash = Mix(hash, static_cast<uint64_t>(count));
    }
    if (!AreEven(announced.counts)) call.uneven = 1;
  }
  what_ = whole_.empty() ? Describe(call, announced.count, announced.counts,
                                    members_[call.root < members_.size() ? call.root : 0])
                         : whole_;
  hash = MixText(hash, whole_);
  Parts headers(size());
  for (int r = 0; r < size(); ++r) {
    const auto i = static_cast<size_t>(r);
    Header& header = HeaderTo(r);
    header.call = call;
    header.count = announced.count;
    header.counts_hash = hash;
    if (r == rank()) continue;
    const size_t inlined = parts.send[i].size() <= kInlineBytes ? parts.send[i].size() : 0;
    if (inlined > 0) std::memcpy(header.data, parts.send[i].data(), inlined);
    std::memset(header.data + inlined, 0, kInlineBytes - inlined);
    headers.send[i] = {reinterpret_cast<const std::byte*>(&header), sizeof(Header)};
    headers.recv[i] = {headers_.data() + static_cast<size_t>(size() + r) * sizeof(Header),
                       sizeof(Header)};
  }
  LOCKSTEP_RETURN_IF_ERROR(RunRound(headers, 0, deadline));
  LOCKSTEP_RETURN_IF_ERROR(Compare(deadline));
  if (pairs_differ) LOCKSTEP_RETURN_IF_ERROR(CompareAllToAll(announced, deadline));
  for (int r = 0; r < size(); ++r) {
    const absl::Span<std::byte> part = parts.recv[static_cast<size_t>(r)];
    if (r == rank() || part.empty() || part.size() > kInlineBytes) continue;
    std::memcpy(part.data(), HeaderFrom(r).data, part.size());
  }
  return RunRound(parts, kInlineBytes, deadline);
}

Status RoundRunner::Move(const Parts& parts, Deadline deadline, const Parts* also) {
  AddRound(parts, 0);
  if (also != nullptr) AddRound(*also, 0);
  return RunAdded(deadline);
}

Status RoundRunner::RunRound(const Parts& parts, size_t above_bytes, Deadline deadline) {
  AddRound(parts, above_bytes);
  return RunAdded(deadline);
}

// Parts of up to `above_bytes` have been moved before. A round takes its number on every rank, also
// on those that have nothing to send in it.
void RoundRunner::AddRound(const Parts& parts, size_t above_bytes) {
  ++rounds_;
  for (int step = 1; step < size(); ++step) {
    // In a circle that begins after the own rank, so that not all crowd on rank 0.
    const Rank to = (rank() + step) % size();
    const Rank from = (rank() - step + size()) % size();
    const auto& out = parts.send[static_cast<size_t>(to)];
    const auto& in = parts.recv[static_cast<size_t>(from)];
    if (out.size() > above_bytes) outgoing_.push_back({to, rounds_, out.data(), out.size()});
    if (in.size() > above_bytes) incoming_.push_back({from, rounds_, in.data(), in.size()});
  }
}

Status RoundRunner::RunAdded(Deadline deadline) {
  const Outcome outcome = outgoing_.empty() && incoming_.empty()
                              ? Outcome()
                              : transport_->Run(outgoing_, incoming_, deadline);
  outgoing_.clear();
  incoming_.clear();
  return Explain(outcome, what_);
}

Status RoundRunner::Compare(Deadline deadline) {
  const Header& mine = HeaderTo(rank());
  bool agree = true;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    const Header& theirs = HeaderFrom(r);
    agree &= theirs.call.Agrees(mine.call) && theirs.count == mine.count &&
             theirs.counts_hash == mine.counts_hash;
  }
  if (agree) [[likely]]
    return OkStatus();
  // All ranks have seen it, so all take part in telling each other the rest.
  const StatusOr<std::vector<std::string>> descriptions = ShareTexts(what_, deadline);
  if (!descriptions.ok()) return descriptions.status();
  // No rank leaves before all have read the rest. If that goes wrong, the disagreement is the
  // cause.
  (void)ShareTexts(what_, deadline);
  failure_ = OkStatus();
  return Fail(InvalidArgument(DescribeDisagreement(*descriptions, members_)));
}

Status RoundRunner::CompareAllToAll(const Announcement& announced, Deadline deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> all,
                            ShareNumbers(announced.counts, deadline));
  const auto n = static_cast<size_t>(size());
  for (size_t from = 0; from < n; ++from) {
    for (size_t to = 0; to < n; ++to) {
      const int64_t sent = all[from * 2 * n + to];
      const int64_t expected = all[to * 2 * n + n + from];
      if (sent == expected) continue;
      return Fail(InvalidArgument("the ranks disagree: in an all-to-all, rank ", members_[from],
                                  " sends ", sent, " elements to rank ", members_[to],
                                  ", which expects ", expected));
    }
  }
  return OkStatus();
}

StatusOr<std::vector<std::string>> RoundRunner::ShareTexts(const std::string& text,
                                                           Deadline deadline) {
  std::vector<int64_t> numbers(kTextBytes / sizeof(int64_t));
  std::memcpy(numbers.data(), text.data(), std::min(text.size(), kTextBytes - 1));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<int64_t> all, ShareNumbers(numbers, deadline));
  std::vector<std::string> texts;
  for (size_t r = 0; r < static_cast<size_t>(size()); ++r) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + r * numbers.size()));
  }
  return texts;
}

StatusOr<std::vector<int64_t>> RoundRunner::ShareNumbers(absl::Span<const int64_t> numbers,
                                                         Deadline deadline) {
  std::vector<int64_t> all(numbers.size() * static_cast<size_t>(size()));
  Parts parts(size());
  for (int r = 0; r < size(); ++r) {
    const auto i = static_cast<size_t>(r);
    int64_t* const theirs = all.data() + i * numbers.size();
    parts.send[i] = BytesOf(numbers);
    parts.recv[i] = {reinterpret_cast<std::byte*>(theirs), numbers.size() * sizeof(int64_t)};
    if (r == rank()) std::copy(numbers.begin(), numbers.end(), theirs);
  }
  LOCKSTEP_RETURN_IF_ERROR(RunRound(parts, 0, deadline));
  return all;
}

}  // namespace lockstep::collective::message
