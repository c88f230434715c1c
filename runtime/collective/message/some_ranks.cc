#include "runtime/collective/message/some_ranks.h"

#include <algorithm>
#include <utility>

namespace lockstep::collective::message {
namespace {

// Tells these messages apart from those that the whole exchanges itself.
constexpr uint64_t kOfSome = uint64_t{1} << 61;

}  // namespace

SomeRanks::SomeRanks(Transport& whole, std::vector<Rank> ranks)
    : whole_(whole), ranks_(std::move(ranks)) {
  const auto self = std::find(ranks_.begin(), ranks_.end(), whole_.rank());
  rank_ = static_cast<int>(self - ranks_.begin());
}

Outcome SomeRanks::Run(absl::Span<const Outgoing> outgoing, absl::Span<const Incoming> incoming,
                       Deadline deadline) {
  outgoing_.assign(outgoing.begin(), outgoing.end());
  incoming_.assign(incoming.begin(), incoming.end());
  for (Outgoing& out : outgoing_) {
    out.to = InWhole(out.to);
    out.tag |= kOfSome;
  }
  for (Incoming& in : incoming_) {
    in.from = InWhole(in.from);
    in.tag |= kOfSome;
  }
  Outcome outcome = whole_.Run(outgoing_, incoming_, deadline);
  for (Rank& rank : outcome.ranks) {
    rank = static_cast<Rank>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  }
  return outcome;
}

StatusOr<std::unique_ptr<Transport>> SomeRanks::Split(absl::Span<const Rank> group_ranks,
                                                      uint64_t tag,
                                                      const std::atomic<bool>* cancelled,
                                                      Deadline deadline) {
  std::vector<Rank> ranks;
  for (const Rank rank : group_ranks) ranks.push_back(InWhole(rank));
  return whole_.Split(ranks, tag, cancelled, deadline);
}

}  // namespace lockstep::collective::message
