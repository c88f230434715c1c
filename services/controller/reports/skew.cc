#include "services/controller/reports/skew.h"

#include <algorithm>
#include <string>

namespace lockstep::controller {

void Skew::Take(Rank rank, capnp::List<wire::CollectiveTime>::Reader times) {
  if (times.size() == 0) return;
  std::lock_guard lock(mutex_);
  for (auto time : times) {
    const OperationFacts* const facts = FindOperation(time.getKind());
    // What a newer worker may tell besides counts for nothing.
    if (facts == nullptr || !IsLeftTogether(facts->kind)) continue;
    if (time.getRanks() < 2 || time.getRanks() > workers_) continue;
    Add(rank, time, operations_[time.getKind()]);
  }
}

void Skew::Add(Rank rank, wire::CollectiveTime::Reader time, Operation& operation) {
  const Key key{time.getSession(), time.getGeneration(), time.getCommand(), time.getFirst()};
  const std::chrono::nanoseconds spent(static_cast<int64_t>(time.getNanos()));
  const auto [found, is_new] =
      pending_.try_emplace(key, Pending{time.getRanks(), rank, spent, spent});
  Pending& pending = found->second;
  if (is_new) {
    order_.push_back(key);
  } else if (spent < pending.shortest) {
    pending.last = rank;
  }
  pending.shortest = std::min(pending.shortest, spent);
  pending.longest = std::max(pending.longest, spent);
  if (--pending.missing == 0) {
    operation.skew.Observe(pending.longest - pending.shortest);
    operation.last.resize(static_cast<size_t>(workers_));
    ++operation.last[static_cast<size_t>(pending.last)];
    ++lateness_.compared;
    Late& late = lateness_.ranks[static_cast<size_t>(pending.last)];
    ++late.times;
    late.by += pending.longest - pending.shortest;
    pending_.erase(found);
  }
  while (order_.size() > kMostPending) {
    pending_.erase(order_.front());
    order_.pop_front();
  }
}

Skew::Lateness Skew::Compared() const {
  std::lock_guard lock(mutex_);
  return lateness_;
}

void Skew::Tell(metrics::Families& families) const {
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < kOperationCount; ++i) {
    if (operations_[i].skew.Count() == 0) continue;
    families.Histogram("lockstep_collective_skew_seconds",
                       "How much later than the first the last rank came to a collective.",
                       operations_[i].skew, {{"operation", std::string(kOperations[i].label)}});
  }
  for (size_t i = 0; i < kOperationCount; ++i) {
    for (size_t rank = 0; rank < operations_[i].last.size(); ++rank) {
      families.Counter(
          "lockstep_collective_last_total", "How often this rank came last to a collective.",
          static_cast<double>(operations_[i].last[rank]),
          {{"operation", std::string(kOperations[i].label)}, {"rank", std::to_string(rank)}});
    }
  }
}

}  // namespace lockstep::controller
