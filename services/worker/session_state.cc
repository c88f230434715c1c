#include "services/worker/session_state.h"

#include <utility>

namespace lockstep::worker {

control::RemoteError SessionState::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

bool SessionState::Fail(const control::RemoteError& cause) {
  std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return false;
  failure_ = cause;
  failed_.store(true, std::memory_order_release);
  return true;
}

void SessionState::Abort(Generation generation, const control::RemoteError& cause) {
  std::lock_guard lock(mutex_);
  const uint32_t current = generation_.load(std::memory_order_relaxed);
  if (generation.value > current) early_abort_ = EarlyAbort{generation, cause};
  if (generation.value != current) return;
  if (!failed_.load(std::memory_order_relaxed)) {
    failure_ = cause;
    failed_.store(true, std::memory_order_release);
  }
  const Status status = failure_.ToStatus();
  for (auto& [members, communicator] : communicators_) communicator->Abort(status);
}

void SessionState::Reset(Generation generation) {
  std::lock_guard lock(mutex_);
  generation_.store(generation.value, std::memory_order_release);
  failure_ = control::RemoteError();
  failed_.store(false, std::memory_order_release);
  communicators_.clear();
  if (early_abort_.has_value() && early_abort_->generation == generation) {
    failure_ = early_abort_->cause;
    failed_.store(true, std::memory_order_release);
  }
}

StatusOr<collective::Communicator*> SessionState::CommunicatorAmong(
    const std::vector<Rank>& members, collective::Communicator& world, Deadline deadline) {
  {
    std::lock_guard lock(mutex_);
    const auto found = communicators_.find(members);
    if (found != communicators_.end()) return found->second.get();
  }
  // Never the same for two sessions, or for two generations of one.
  const uint64_t tag = uint64_t{id_.value} << 32 | generation_.load(std::memory_order_relaxed);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<collective::Communicator> made,
                            world.Split(members, tag, deadline, &failed_));
  std::lock_guard lock(mutex_);
  // An abort that came meanwhile has not seen it.
  if (failed_.load(std::memory_order_relaxed)) made->Abort(failure_.ToStatus());
  return communicators_.emplace(members, std::move(made)).first->second.get();
}

}  // namespace lockstep::worker
