// Who may connect to a relay over the network: its children, by the keys that the controller says.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "runtime/control/keys/gate.h"

namespace lockstep::control {

// The relay's key and its children's are made for one tree; both ends learn the other's from the
// controller, so no operator has to hand out any.
//
// Threads: safe.
class RelayGate final : public Gate {
 public:
  // `key`: "lpk_...". One that is none lets no child in.
  void LetIn(uint64_t place, const std::string& key);
  void ShutOut(uint64_t place);

  // What the identity of the child at `place` is called.
  static std::string NameOf(uint64_t place) { return "child-" + std::to_string(place); }

  KeyPair own() const override { return own_; }
  StatusOr<Identity> Admit(const PublicKey& key) override;
  bool Holds(const Identity& identity) const override;
  uint64_t version() const override { return version_.load(std::memory_order_acquire); }

 private:
  const KeyPair own_ = NewKeyPair();
  std::atomic<uint64_t> version_{1};
  mutable std::mutex mutex_;
  std::map<PublicKey, uint64_t> places_;
};

}  // namespace lockstep::control
