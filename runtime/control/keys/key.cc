#include "runtime/control/keys/key.h"

#include <string.h>
#include <zmq.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <new>

#include "absl/strings/escaping.h"

namespace lockstep::control {
namespace {

using KeyBytes = std::array<uint8_t, kKeyBytes>;

// ZeroMQ's own text form of a key, Z85 (https://rfc.zeromq.org/spec/32/), with its final zero.
using Z85 = std::array<char, kKeyBytes * 5 / 4 + 1>;

KeyBytes Decode(Z85& text) {
  KeyBytes bytes{};
  zmq_z85_decode(bytes.data(), text.data());
  explicit_bzero(text.data(), text.size());
  return bytes;
}

std::string TextOf(const char* prefix, const KeyBytes& bytes) {
  std::string encoded;
  absl::WebSafeBase64Escape(std::string(bytes.begin(), bytes.end()), &encoded);
  return prefix + encoded;
}

// True if `text` is `prefix` and the one way to write 32 bytes.
bool Parse(const char* prefix, const std::string& text, KeyBytes* bytes) {
  if (text.rfind(prefix, 0) != 0) return false;
  std::string decoded;
  const std::string encoded = text.substr(strlen(prefix));
  if (!absl::WebSafeBase64Unescape(encoded, &decoded) || decoded.size() != kKeyBytes) return false;
  std::copy(decoded.begin(), decoded.end(), bytes->begin());
  return TextOf(prefix, *bytes) == text;
}

}  // namespace

std::string PublicKey::Text() const { return TextOf(kPublicPrefix, bytes); }

std::string SecretKey::SecretText() const { return TextOf(kSecretPrefix, bytes_); }

SecretKey::~SecretKey() { explicit_bzero(bytes_.data(), bytes_.size()); }

KeyPair NewKeyPair() {
  Z85 public_text{};
  Z85 secret_text{};
  // It fails only without CURVE, and a ZeroMQ without CURVE is none that this is built with.
  if (zmq_curve_keypair(public_text.data(), secret_text.data()) != 0) std::abort();
  return {PublicKey{Decode(public_text)}, SecretKey(Decode(secret_text))};
}

KeyPair PairOf(const SecretKey& secret) {
  Z85 public_text{};
  Z85 secret_text{};
  zmq_z85_encode(secret_text.data(), secret.bytes().data(), kKeyBytes);
  if (zmq_curve_public(public_text.data(), secret_text.data()) != 0) std::abort();
  explicit_bzero(secret_text.data(), secret_text.size());
  return {PublicKey{Decode(public_text)}, secret};
}

bool HasSecret(const std::string& text) { return text.find(kSecretPrefix) != std::string::npos; }

std::string HideSecrets(const std::string& text) {
  const auto is_of_key = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_';
  };
  std::string hidden;
  size_t at = 0;
  for (size_t begin; (begin = text.find(kSecretPrefix, at)) != std::string::npos;) {
    const size_t key = begin + strlen(kSecretPrefix);
    hidden += text.substr(at, key - at);
    at = key;
    while (at < text.size() && is_of_key(text[at])) ++at;
    if (at > key) hidden += "...";
  }
  return hidden + text.substr(at);
}

Status CheckNoSecrets(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (!HasSecret(argv[i])) continue;
    return InvalidArgument(
        "a secret key (", kSecretPrefix, "...) on the command line, argument ", i,
        ": every user of this host can read it there. Put it into a file with mode 600, give the "
        "file's name, and make a new key: this one may have been seen");
  }
  return OkStatus();
}

StatusOr<PublicKey> ParsePublicKey(const std::string& text) {
  PublicKey key;
  if (Parse(kPublicPrefix, text, &key.bytes)) return key;
  if (HasSecret(text)) {
    return InvalidArgument("a secret key (", kSecretPrefix,
                           "...) where a public one belongs: take it out and make a new one, for "
                           "others may have seen it");
  }
  return InvalidArgument("\"", text, "\" is no public key: expected ", kPublicPrefix,
                         " and 43 letters, digits, - or _");
}

StatusOr<SecretKey> ParseSecretKey(const std::string& text) {
  std::array<uint8_t, kKeyBytes> bytes{};
  if (Parse(kSecretPrefix, text, &bytes)) {
    SecretKey key(bytes);
    explicit_bzero(bytes.data(), bytes.size());
    return key;
  }
  if (text.rfind(kPublicPrefix, 0) == 0) {
    return InvalidArgument("a public key (", kPublicPrefix, "...) where a secret one belongs");
  }
  return InvalidArgument("no secret key: expected ", kSecretPrefix,
                         " and 43 letters, digits, - or _");
}

}  // namespace lockstep::control
