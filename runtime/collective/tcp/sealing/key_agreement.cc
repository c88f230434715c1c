#include "runtime/collective/tcp/sealing/key_agreement.h"

#include <sodium.h>

#include <cstdlib>
#include <string_view>

namespace lockstep::collective::tcp {
namespace {

constexpr std::string_view kProtocol = "lockstep data between ranks 1";
// Names what is derived from the key that both ends have.
enum Derived : uint64_t { kFromCaller = 1, kFromCalled, kHello };
constexpr char kOfConnection[crypto_kdf_CONTEXTBYTES + 1] = "conn key";

// Each part with its length before it, so that no two lists of parts are the same bytes.
class Transcript {
 public:
  Transcript() { crypto_generichash_init(&state_, nullptr, 0, crypto_kdf_KEYBYTES); }
  ~Transcript() { sodium_memzero(&state_, sizeof state_); }

  void Add(const void* data, uint64_t size_bytes) {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(&size_bytes),
                              sizeof size_bytes);
    crypto_generichash_update(&state_, static_cast<const unsigned char*>(data), size_bytes);
  }
  void Add(std::string_view text) { Add(text.data(), text.size()); }
  void Add(uint64_t number) { Add(&number, sizeof number); }
  void Finish(unsigned char* key) { crypto_generichash_final(&state_, key, crypto_kdf_KEYBYTES); }

 private:
  crypto_generichash_state state_;
};

void Derive(const unsigned char* key, Derived what, void* bytes, size_t size_bytes) {
  crypto_kdf_derive_from_key(static_cast<unsigned char*>(bytes), size_bytes, what, kOfConnection,
                             key);
}

}  // namespace

ConnectionKeys::~ConnectionKeys() { sodium_memzero(this, sizeof *this); }

KeyAgreement::KeyAgreement() {
  static_assert(kCurveBytes == crypto_scalarmult_curve25519_BYTES);
  static_assert(Cipher::kKeyBytes == crypto_kdf_KEYBYTES);
  // It fails only where there are no random numbers to be had.
  if (sodium_init() < 0) std::abort();
  randombytes_buf(secret_.data(), secret_.size());
  crypto_scalarmult_curve25519_base(public_.data(), secret_.data());
  public_text_.resize(2 * kCurveBytes + 1);
  sodium_bin2hex(public_text_.data(), public_text_.size(), public_.data(), public_.size());
  public_text_.pop_back();
}

KeyAgreement::~KeyAgreement() { sodium_memzero(secret_.data(), secret_.size()); }

StatusOr<ConnectionKeys> KeyAgreement::Agree(const Ends& ends,
                                             const std::string& other_public_key) const {
  std::array<unsigned char, kCurveBytes> other;
  size_t size = 0;
  const bool is_key = sodium_hex2bin(other.data(), other.size(), other_public_key.data(),
                                     other_public_key.size(), nullptr, &size, nullptr) == 0 &&
                      size == other.size();
  // Of a few keys that are none, every secret key makes the same.
  std::array<unsigned char, kCurveBytes> shared;
  if (!is_key || crypto_scalarmult_curve25519(shared.data(), secret_.data(), other.data()) != 0) {
    return InvalidArgument("has told no key of X25519");
  }
  Transcript transcript;
  transcript.Add(kProtocol);
  transcript.Add(ends.team);
  transcript.Add(ends.called_rank);
  transcript.Add(ends.calling_rank);
  const auto& called_key = ends.is_caller ? other : public_;
  const auto& calling_key = ends.is_caller ? public_ : other;
  transcript.Add(called_key.data(), called_key.size());
  transcript.Add(calling_key.data(), calling_key.size());
  transcript.Add(ends.called_secret);
  transcript.Add(ends.calling_secret);
  transcript.Add(shared.data(), shared.size());
  std::array<unsigned char, crypto_kdf_KEYBYTES> key;
  transcript.Finish(key.data());
  ConnectionKeys keys;
  Derive(key.data(), ends.is_caller ? kFromCaller : kFromCalled, keys.send.data(),
         keys.send.size());
  Derive(key.data(), ends.is_caller ? kFromCalled : kFromCaller, keys.receive.data(),
         keys.receive.size());
  Derive(key.data(), kHello, keys.hello.data(), keys.hello.size());
  sodium_memzero(key.data(), key.size());
  sodium_memzero(shared.data(), shared.size());
  return keys;
}

}  // namespace lockstep::collective::tcp
