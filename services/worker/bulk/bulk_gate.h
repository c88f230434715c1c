// Who may connect to a worker's bulk endpoint: the clients of the sessions that are open here.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "runtime/base/ids.h"
#include "runtime/control/keys/gate.h"

namespace lockstep::worker {

// The keys are made for it alone: the worker's when it starts, a client's for one session. Each
// learns the other's through the controller, so no operator has to hand out any.
//
// Threads: safe.
class BulkGate final : public control::Gate {
 public:
  // `key`: "lpk_...". One that is none lets no client in.
  void LetIn(SessionId session, const std::string& key);
  void ShutOut(SessionId session);

  control::KeyPair own() const override { return own_; }
  StatusOr<control::Identity> Admit(const control::PublicKey& key) override;
  bool Holds(const control::Identity& identity) const override;
  uint64_t version() const override { return version_.load(std::memory_order_acquire); }

 private:
  const control::KeyPair own_ = control::NewKeyPair();
  std::atomic<uint64_t> version_{1};
  mutable std::mutex mutex_;
  std::map<SessionId, control::PublicKey> keys_;
  std::map<control::PublicKey, SessionId> sessions_;
};

}  // namespace lockstep::worker
