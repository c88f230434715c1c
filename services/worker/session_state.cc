#include "services/worker/session_state.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "runtime/control/host.h"

namespace lockstep::worker {
namespace {

// Never the same for two sessions, for two generations of one, or for two communicators of one
// generation: those that share a tag are 2^24 sessions, 2^16 resets or 2^24 communicators apart.
uint64_t TagOf(SessionId session, uint32_t generation, uint32_t serial) {
  constexpr int kSerialBits = 24;
  constexpr int kGenerationBits = 16;
  const uint64_t in_session = uint64_t{generation & ((1u << kGenerationBits) - 1)} << kSerialBits |
                              (serial & ((1u << kSerialBits) - 1));
  return uint64_t{session.value} << (kGenerationBits + kSerialBits) | in_session;
}

}  // namespace

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
  communicators_.ForEach(
      [&](collective::Communicator& communicator) { communicator.Abort(status); });
}

void SessionState::Reset(Generation generation) {
  std::lock_guard lock(mutex_);
  generation_.store(generation.value, std::memory_order_release);
  failure_ = control::RemoteError();
  failed_.store(false, std::memory_order_release);
  communicators_.Clear();
  if (early_abort_.has_value() && early_abort_->generation == generation) {
    failure_ = early_abort_->cause;
    failed_.store(true, std::memory_order_release);
  }
}

StatusOr<collective::Communicator*> SessionState::CommunicatorOf(const TeamName& name,
                                                                 const std::vector<Rank>& members,
                                                                 collective::Communicator& world,
                                                                 Deadline deadline) {
  CommunicatorCache::Entry* entry = nullptr;
  CommunicatorCache::Evicted evicted;
  {
    std::lock_guard lock(mutex_);
    entry = &communicators_.Use(name, &evicted);
    if (entry->communicator != nullptr || members.empty()) return entry->communicator.get();
  }
  // Before another one is made: it needs the room.
  evicted.clear();
  const uint64_t tag = TagOf(id_, generation_.load(std::memory_order_relaxed), entry->serial);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<collective::Communicator> made,
                            world.Split(members, tag, deadline, &failed_));
  std::lock_guard lock(mutex_);
  // An abort that came meanwhile has not seen it.
  if (failed_.load(std::memory_order_relaxed)) made->Abort(failure_.ToStatus());
  entry->communicator = std::move(made);
  return entry->communicator.get();
}

ClientProcess* SessionState::client_process() {
  if (!looked_for_client_) {
    looked_for_client_ = true;
    if (owner_.client_host == control::ThisHost().id) {
      StatusOr<ClientProcess> process = ClientProcess::Watch(owner_.client_pid);
      if (process.ok()) {
        client_process_ = *std::move(process);
      } else {
        spdlog::warn("session {} copies by socket: its client cannot be watched: {}", id_.value,
                     Message(process.status()));
      }
    }
  }
  return client_process_.has_value() ? &*client_process_ : nullptr;
}

}  // namespace lockstep::worker
