#include "runtime/control/tree/upstream.h"

#include <algorithm>
#include <utility>

namespace lockstep::control {

void Upstream::Add(const Message& message) {
  if (writer_.is_full()) Leave(world_, consumed_);
  writer_.Add(worker_, key_, ++answers_, message);
}

Status Upstream::PassOn(const PeerName& child, uint64_t number, const Message& bundle) {
  LOCKSTEP_ASSIGN_OR_RETURN(const bool fits, writer_.Append(bundle));
  if (!fits) {
    Leave(world_, consumed_);
    LOCKSTEP_RETURN_IF_ERROR(writer_.Append(bundle).status());
  }
  uint64_t& last = children_[child];
  last = std::max(last, number);
  return OkStatus();
}

void Upstream::Flush(uint64_t world, uint64_t consumed, bool tell_consumed) {
  world_ = world;
  consumed_ = consumed;
  if (!writer_.empty() || tell_consumed) Leave(world, consumed);
}

void Upstream::Leave(uint64_t world, uint64_t consumed) {
  // What is only told of consumption is told anew later, and takes no number: those that are kept
  // have no gaps, so whoever gets them sees whether one is missing.
  const bool is_empty = writer_.empty();
  if (!is_empty) ++bundles_;
  const uint64_t kept_from = !kept_.empty() ? kept_.front().number : bundles_ + (is_empty ? 1 : 0);
  Message bundle = writer_.Take(world, bundles_, consumed, kept_from);
  send_(bundle);
  if (is_empty) return;
  kept_.push_back({bundles_, std::move(bundle), std::exchange(children_, {})});
}

void Upstream::SendAgain() {
  for (const Kept& kept : kept_) {
    send_(WithHeader(kept.bundle, world_, kept.number, consumed_, kept_.front().number));
  }
}

std::map<PeerName, uint64_t> Upstream::NoteTaken(uint64_t number) {
  std::map<PeerName, uint64_t> children;
  while (!kept_.empty() && kept_.front().number <= number) {
    for (const auto& [child, last] : kept_.front().children) {
      uint64_t& all = children[child];
      all = std::max(all, last);
    }
    kept_.pop_front();
  }
  return children;
}

}  // namespace lockstep::control
