// Whose a session is, by the key that its client has shown: how many one key may have, and that
// they end when it is revoked (docs/adr/0011-keys.md).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/control/keys/gate.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. *sessions must outlive it.
class KeyAccess {
 public:
  // `gate`: that of the clients' endpoint; null: none is asked for a key.
  KeyAccess(std::shared_ptr<control::Gate> gate, int max_sessions_per_key,
            const SessionTable& sessions)
      : gate_(std::move(gate)), max_sessions_per_key_(max_sessions_per_key), sessions_(sessions) {}

  // kPermissionDenied if the key of `owner` is not allowed any more. No owner: a client that needs
  // no key.
  Status CheckStillAllowed(const std::optional<control::Identity>& owner) const;
  // kResourceExhausted if the owner of this key has as many sessions as one may have.
  Status CheckRoom(const std::optional<control::Identity>& owner) const;

  // True if the list of keys may have changed since this was last asked.
  bool TakeChange();
  // It may have changed while there was no controller.
  void ForgetVersion() { version_.reset(); }

 private:
  const std::shared_ptr<control::Gate> gate_;
  const int max_sessions_per_key_;
  const SessionTable& sessions_;
  std::optional<uint64_t> version_;  // that sessions were held against; none: no version yet
};

}  // namespace lockstep::controller
