// Whose session it is, by the key that its client has shown: how many a key may have, and that they
// end when it is taken back.

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/keys/key.h"
#include "runtime/control/value_codec.h"
#include "services/controller/controller.h"

namespace lockstep::controller {
namespace {

Status TakenBack(const control::Identity& owner) {
  return PermissionDenied("the key ", owner.key.Text(), " of \"", owner.name,
                          "\" is not allowed any more: its session was ended");
}

}  // namespace

std::optional<control::Identity> Controller::Sender() const {
  const control::Identity* const sender = clients_->sender();
  if (sender == nullptr) return std::nullopt;
  return *sender;
}

Status Controller::CheckStillAllowed(const std::optional<control::Identity>& owner) const {
  if (!owner.has_value() || client_gate_ == nullptr || client_gate_->Holds(*owner)) {
    return OkStatus();
  }
  return TakenBack(*owner);
}

Status Controller::CheckRoomForKey(const std::optional<control::Identity>& owner) const {
  if (!owner.has_value()) return OkStatus();
  const auto is_theirs = [&](const auto& entry) {
    return entry.second.owner.has_value() && entry.second.owner->name == owner->name;
  };
  const auto count = std::count_if(sessions_.all().begin(), sessions_.all().end(), is_theirs);
  if (count < options_.max_sessions_per_key) return OkStatus();
  return ResourceExhausted("\"", owner->name, "\" has ", count,
                           " sessions already, as many as one key may have "
                           "(max_sessions_per_key); close some first");
}

Status Controller::CheckBulkKey(capnp::Text::Reader key) {
  if (key.size() == 0) return OkStatus();
  return Annotate(control::ParsePublicKey(control::ToString(key)).status(), "the bulk key");
}

void Controller::EndRevokedSessions() {
  if (client_gate_ == nullptr) return;
  const uint64_t version = client_gate_->version();
  if (std::exchange(gate_version_, version) == version) return;
  for (const SessionId id : sessions_.Ids()) {
    SessionEntry& session = *sessions_.Find(id);
    const Status allowed = CheckStillAllowed(session.owner);
    if (allowed.ok() || session.ending.has_value()) continue;
    log::Warn(log::OfSession(id.value), "session ends: ", Message(allowed));
    // Its client would wait for ever: what it says is not heard any more.
    if (!session.client.empty()) Refuse(session.client, allowed);
    const control::RemoteError cause = control::ErrorOf(allowed);
    liveness_->Abort(id, session.generation, 0, cause);
    EndSession(session, std::nullopt, Deadline::After({}), /*client_lost=*/true, cause);
  }
}

}  // namespace lockstep::controller
