// Keys: how the two ends of a connection know each other. Curve25519 key pairs, as CurveZMQ uses
// them (https://rfc.zeromq.org/spec/26/).
//
// Written as text, a public key begins with "lpk_" and a secret one with "lsk_", so that neither
// people nor programs take one for the other; 43 characters of base64url (RFC 4648) follow, which
// need no quotes in shells and YAML.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::control {

inline constexpr size_t kKeyBytes = 32;
inline constexpr char kPublicPrefix[] = "lpk_";
inline constexpr char kSecretPrefix[] = "lsk_";

// Its holder can check that a peer is the one that it says.
struct PublicKey {
  std::array<uint8_t, kKeyBytes> bytes{};

  std::string Text() const;
  friend auto operator<=>(const PublicKey&, const PublicKey&) = default;
};

// Its holder is its owner. Printed by nothing but SecretText(); wiped from memory at its end.
class SecretKey {
 public:
  SecretKey() = default;
  explicit SecretKey(const std::array<uint8_t, kKeyBytes>& bytes) : bytes_(bytes) {}
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();

  const std::array<uint8_t, kKeyBytes>& bytes() const { return bytes_; }
  std::string SecretText() const;

 private:
  std::array<uint8_t, kKeyBytes> bytes_{};
};

struct KeyPair {
  PublicKey public_key;
  SecretKey secret_key;
};

// A fresh one, from the system's random numbers.
KeyPair NewKeyPair();

// The pair that a secret key belongs to.
KeyPair PairOf(const SecretKey& secret);

// True if there is a secret key somewhere in the text: it must not be repeated in any message.
bool HasSecret(const std::string& text);
// The text with "lsk_..." in the place of each.
std::string HideSecrets(const std::string& text);

// kInvalidArgument if a program was given a secret key on its command line: all users of the host
// see that.
Status CheckNoSecrets(int argc, const char* const* argv);

// kInvalidArgument, which never repeats a secret: not the text of such a key; of the other kind.
StatusOr<PublicKey> ParsePublicKey(const std::string& text);
StatusOr<SecretKey> ParseSecretKey(const std::string& text);

}  // namespace lockstep::control
