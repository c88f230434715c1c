// Some of a transport's ranks, over its connections.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/collective/message/transport.h"

namespace lockstep::collective::message {

class SomeRanks final : public Transport {
 public:
  // `whole` is borrowed. `ranks` are its ranks, in the order that becomes theirs here, with its own
  // among them.
  SomeRanks(Transport& whole, std::vector<Rank> ranks);

  std::string_view name() const override { return whole_.name(); }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  Outcome Run(absl::Span<const Outgoing> outgoing, absl::Span<const Incoming> incoming,
              Deadline deadline) override;
  void Cancel() override { whole_.Cancel(); }
  void Leave(const Status& why) override {
    if (!why.ok()) whole_.Leave(why);
  }
  std::optional<Status> FarewellOf(Rank peer) override { return whole_.FarewellOf(InWhole(peer)); }
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

}  // namespace lockstep::collective::message
