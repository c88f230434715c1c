#include "services/controller/sessions/key_access.h"

#include <algorithm>

namespace lockstep::controller {

Status KeyAccess::CheckStillAllowed(const std::optional<control::Identity>& owner) const {
  if (!owner.has_value() || gate_ == nullptr || gate_->Holds(*owner)) return OkStatus();
  return PermissionDenied("the key ", owner->key.Text(), " of \"", owner->name,
                          "\" is not allowed any more: its session was ended");
}

Status KeyAccess::CheckRoom(const std::optional<control::Identity>& owner) const {
  if (!owner.has_value()) return OkStatus();
  const auto is_theirs = [&](const auto& entry) {
    return entry.second.owner.has_value() && entry.second.owner->name == owner->name;
  };
  const auto count = std::count_if(sessions_.all().begin(), sessions_.all().end(), is_theirs);
  if (count < max_sessions_per_key_) return OkStatus();
  return ResourceExhausted("\"", owner->name, "\" has ", count,
                           " sessions already, as many as one key may have "
                           "(max_sessions_per_key); close some first");
}

bool KeyAccess::TakeChange() {
  if (gate_ == nullptr) return false;
  const uint64_t version = gate_->version();
  return std::exchange(version_, version) != version;
}

}  // namespace lockstep::controller
