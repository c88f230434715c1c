#include "runtime/collective/message/message_communicator.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/collective/checks.h"
#include "runtime/collective/message/transport.h"

namespace lockstep::collective::message {

// Some of a transport's ranks, over its connections.
class SubsetTransport final : public Transport {
 public:
  // `whole` is borrowed. `ranks` are its ranks, in the order that becomes theirs here, with its own
  // among them.
  SubsetTransport(Transport& whole, std::vector<Rank> ranks);

  std::string_view name() const override { return whole_.name(); }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  Outcome Run(absl::Span<const Outgoing> outgoing, absl::Span<const Incoming> incoming,
              Deadline deadline) override;
  void Cancel() override { whole_.Cancel(); }
  void Leave(const Status& why) override {
    if (!why.ok()) whole_.Leave(why);
  }
  std::optional<Status> LeaveReasonOf(Rank peer) override {
    return whole_.LeaveReasonOf(InWhole(peer));
  }
  StatusOr<std::unique_ptr<Transport>> Split(absl::Span<const Rank> group_ranks, uint64_t tag,
                                             const std::atomic<bool>* cancelled,
                                             Deadline deadline) override;

 private:
  Rank InWhole(Rank rank) const { return ranks_[static_cast<size_t>(rank)]; }

  Transport& whole_;
  const std::vector<Rank> ranks_;
  int rank_ = 0;
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
};

namespace {

// Tells these messages apart from those that the whole exchanges itself.
constexpr uint64_t kOfSome = uint64_t{1} << 61;

}  // namespace

SubsetTransport::SubsetTransport(Transport& whole, std::vector<Rank> ranks)
    : whole_(whole), ranks_(std::move(ranks)) {
  const auto self = std::find(ranks_.begin(), ranks_.end(), whole_.rank());
  rank_ = static_cast<int>(self - ranks_.begin());
}

Outcome SubsetTransport::Run(absl::Span<const Outgoing> outgoing,
                             absl::Span<const Incoming> incoming, Deadline deadline) {
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

StatusOr<std::unique_ptr<Transport>> SubsetTransport::Split(absl::Span<const Rank> group_ranks,
                                                            uint64_t tag,
                                                            const std::atomic<bool>* cancelled,
                                                            Deadline deadline) {
  std::vector<Rank> ranks;
  for (const Rank rank : group_ranks) ranks.push_back(InWhole(rank));
  return whole_.Split(ranks, tag, cancelled, deadline);
}

MessageCommunicator::MessageCommunicator(std::unique_ptr<Transport> transport,
                                         std::vector<Rank> members,
                                         std::shared_ptr<AbortCause> abort_cause)
    : rounds_(std::move(transport), std::move(members), std::move(abort_cause)),
      reductions_(rounds_),
      movements_(rounds_),
      pairs_(rounds_) {}

std::unique_ptr<Communicator> MessageCommunicator::Among(const std::vector<Rank>& group_ranks) {
  std::vector<Rank> members;
  for (const Rank r : group_ranks) members.push_back(rounds_.WorldRank(r));
  return std::make_unique<MessageCommunicator>(
      std::make_unique<SubsetTransport>(rounds_.transport(), group_ranks), std::move(members),
      rounds_.abort_cause());
}

StatusOr<std::unique_ptr<Communicator>> MessageCommunicator::DoSplit(
    absl::Span<const Rank> group_ranks, uint64_t tag, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  return SplitOff(group_ranks, tag, deadline, cancelled);
}

StatusOr<std::unique_ptr<MessageCommunicator>> MessageCommunicator::SplitOff(
    absl::Span<const Rank> group_ranks, uint64_t tag, Deadline deadline,
    const std::atomic<bool>* cancelled) {
  // Not Usable(): a communicator that failed still can be split. One that was aborted cannot: who
  // aborts it does not know yet of what it would become.
  LOCKSTEP_RETURN_IF_ERROR(rounds_.abort_cause()->Get());
  LOCKSTEP_RETURN_IF_ERROR(CheckSplit(group_ranks, rank(), size()));
  std::vector<Rank> members;
  for (const Rank r : group_ranks) members.push_back(rounds_.WorldRank(r));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                            rounds_.transport().Split(group_ranks, tag, cancelled, deadline));
  return std::make_unique<MessageCommunicator>(std::move(transport), std::move(members));
}

}  // namespace lockstep::collective::message
