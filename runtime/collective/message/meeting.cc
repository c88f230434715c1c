// How an operation begins: all ranks tell all others what they call, and find out whether it is the
// same.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/collective/checks.h"
#include "runtime/collective/message/header.h"
#include "runtime/collective/message/message_communicator.h"

namespace lockstep::collective::message {
namespace {

// What is told of a disagreement.
constexpr size_t kTextBytes = 1024;

absl::Span<const std::byte> BytesOf(absl::Span<const int64_t> numbers) {
  return {reinterpret_cast<const std::byte*>(numbers.data()), numbers.size() * sizeof(int64_t)};
}

}  // namespace

MessageCommunicator::Header& MessageCommunicator::HeaderTo(int r) {
  return reinterpret_cast<Header*>(headers_.data())[r];
}

const MessageCommunicator::Header& MessageCommunicator::HeaderFrom(int r) const {
  return reinterpret_cast<const Header*>(headers_.data())[size() + r];
}

Status MessageCommunicator::Meet(const Announcement& announced, const Parts& parts,
                                 Deadline deadline) {
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

Status MessageCommunicator::Move(const Parts& parts, Deadline deadline, const Parts* also) {
  AddRound(parts, 0);
  if (also != nullptr) AddRound(*also, 0);
  return RunAdded(deadline);
}

Status MessageCommunicator::RunRound(const Parts& parts, size_t above_bytes, Deadline deadline) {
  AddRound(parts, above_bytes);
  return RunAdded(deadline);
}

// Parts of up to `above_bytes` have been moved before. A round takes its number on every rank, also
// on those that have nothing to send in it.
void MessageCommunicator::AddRound(const Parts& parts, size_t above_bytes) {
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

Status MessageCommunicator::RunAdded(Deadline deadline) {
  const Outcome outcome = outgoing_.empty() && incoming_.empty()
                              ? Outcome()
                              : transport_->Run(outgoing_, incoming_, deadline);
  outgoing_.clear();
  incoming_.clear();
  return Explain(outcome, what_);
}

Status MessageCommunicator::Compare(Deadline deadline) {
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
  // Nobody leaves before all have read the rest; if that goes wrong, the disagreement is the cause.
  (void)ShareTexts(what_, deadline);
  failure_ = OkStatus();
  return Fail(InvalidArgument(DescribeDisagreement(*descriptions, members_)));
}

Status MessageCommunicator::CompareAllToAll(const Announcement& announced, Deadline deadline) {
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

StatusOr<std::vector<std::string>> MessageCommunicator::ShareTexts(const std::string& text,
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

StatusOr<std::vector<int64_t>> MessageCommunicator::ShareNumbers(absl::Span<const int64_t> numbers,
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
