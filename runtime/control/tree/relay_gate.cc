#include "runtime/control/tree/relay_gate.h"

namespace lockstep::control {

void RelayGate::LetIn(uint64_t place, const std::string& key) {
  const StatusOr<PublicKey> known = ParsePublicKey(key);
  if (!known.ok()) return;
  std::lock_guard lock(mutex_);
  places_.emplace(*known, place);
  version_.fetch_add(1, std::memory_order_release);
}

void RelayGate::ShutOut(uint64_t place) {
  std::lock_guard lock(mutex_);
  std::erase_if(places_, [place](const auto& known) { return known.second == place; });
  version_.fetch_add(1, std::memory_order_release);
}

StatusOr<Identity> RelayGate::Admit(const PublicKey& key) {
  std::lock_guard lock(mutex_);
  const auto found = places_.find(key);
  if (found == places_.end()) {
    return PermissionDenied("the key ", key.Text(), " is that of no worker below this one");
  }
  return Identity{Role::kWorker, NameOf(found->second), key};
}

bool RelayGate::Holds(const Identity& identity) const {
  std::lock_guard lock(mutex_);
  return places_.count(identity.key) != 0;
}

}  // namespace lockstep::control
