// What decides who gets through to a listener, and what a connection shows at it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/key.h"

namespace lockstep::control {

// Threads: safe. A thread of the channel's asks.
class Gate {
 public:
  virtual ~Gate() = default;
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // The listener's own key, by which its peers know it.
  virtual KeyPair own() const = 0;
  // Who has the key, if he may come in. An error says why not, for the listener's log: the peer is
  // told nothing but that.
  virtual StatusOr<Identity> Admit(const PublicKey& key) = 0;
  // True if one that was admitted may still send. May change when version() does.
  virtual bool Holds(const Identity& identity) const = 0;
  virtual uint64_t version() const = 0;
  // Called several times a second: looks whether what it decides by has changed.
  virtual void Refresh() {}
};

// What a connection needs: who it is, and which listeners it takes for the one that it wants.
struct Credentials {
  KeyPair own;
  std::vector<PublicKey> listeners;  // any of them; at least one
};

// Asked whenever a connection is made, so that keys can change while a process runs.
using CredentialSource = std::function<StatusOr<Credentials>()>;

// Reads them from files. `key`: a key file, or a secret key; `listener`: a file of public keys, or
// one such key. Null if both are empty: nothing is encrypted. kInvalidArgument if only one is; the
// errors of ReadKeyFile() and ReadPublicKeys() if they cannot be read now.
StatusOr<CredentialSource> CredentialsFrom(const std::string& key, const std::string& listener);

// The key pair of a key file, or of a secret key that is given itself.
StatusOr<KeyPair> ReadOwnKey(const std::string& path_or_key);

}  // namespace lockstep::control
