#include "services/worker/bulk/bulk_gate.h"

namespace lockstep::worker {

void BulkGate::LetIn(SessionId session, const std::string& key) {
  ShutOut(session);
  const StatusOr<control::PublicKey> known = control::ParsePublicKey(key);
  if (!known.ok()) return;
  std::lock_guard lock(mutex_);
  // Two sessions with one key are none of our client's; the first one keeps it.
  if (sessions_.emplace(*known, session).second) keys_[session] = *known;
  version_.fetch_add(1, std::memory_order_release);
}

void BulkGate::ShutOut(SessionId session) {
  std::lock_guard lock(mutex_);
  const auto found = keys_.find(session);
  if (found == keys_.end()) return;
  sessions_.erase(found->second);
  keys_.erase(found);
  version_.fetch_add(1, std::memory_order_release);
}

StatusOr<control::Identity> BulkGate::Admit(const control::PublicKey& key) {
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) {
    return PermissionDenied("the key ", key.Text(), " is that of no session's client");
  }
  return control::Identity{control::Role::kClient, "session-" + std::to_string(found->second.value),
                           key};
}

bool BulkGate::Holds(const control::Identity& identity) const {
  std::lock_guard lock(mutex_);
  return sessions_.count(identity.key) != 0;
}

}  // namespace lockstep::worker
