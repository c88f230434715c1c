#include "runtime/collective/tcp/sealing/cipher.h"

#include <sodium.h>

#include <cstring>
#include <utility>

#include "runtime/collective/tcp/sealing/libcrypto.h"

namespace lockstep::collective::tcp {
namespace {

constexpr size_t kNonceBytes = 12;
// Names what is derived: a key's successor. (Those of key_agreement.cc begin elsewhere.)
constexpr uint64_t kNextKey = 1;
constexpr char kOfNextKey[crypto_kdf_CONTEXTBYTES + 1] = "next key";

unsigned char* Raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

// OpenSSL's part.
struct Cipher::Context {
  const Libcrypto& crypto;
  const Use use;
  EvpContext* const evp;

  ~Context() { crypto.free_context(evp); }

  // Null: what there was before stays.
  bool Begin(const Key* key, const unsigned char* nonce) const {
    const auto init = use == Use::kSeal ? crypto.seal_init : crypto.open_init;
    const unsigned char* const bytes = key == nullptr ? nullptr : key->data();
    return init(evp, key == nullptr ? nullptr : crypto.aes_256_gcm(), nullptr, bytes, nonce) == 1;
  }
};

Status Cipher::Available() { return LoadLibcrypto().status(); }

StatusOr<std::unique_ptr<Cipher>> Cipher::Create(Use use, const Key& key) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Libcrypto* const crypto, LoadLibcrypto());
  EvpContext* const evp = crypto->new_context();
  if (evp == nullptr) return ResourceExhausted("there is no memory for a connection's cipher");
  std::unique_ptr<Context> context(new Context{*crypto, use, evp});
  if (!context->Begin(&key, nullptr)) {
    return FailedPrecondition(
        "data between ranks cannot be encrypted: the libcrypto.so.3 of this "
        "host refuses AES-256-GCM");
  }
  return std::unique_ptr<Cipher>(new Cipher(std::move(context), key));
}

Cipher::Cipher(std::unique_ptr<Context> context, const Key& key)
    : context_(std::move(context)), key_(key) {}

Cipher::~Cipher() { sodium_memzero(key_.data(), key_.size()); }

bool Cipher::BeginPiece() {
  const uint64_t number = pieces_++;
  const bool needs_key = number > 0 && number % kPiecesPerKey == 0;
  if (needs_key) {
    Key next;
    crypto_kdf_derive_from_key(next.data(), next.size(), kNextKey, kOfNextKey, key_.data());
    key_ = next;
    sodium_memzero(next.data(), next.size());
  }
  // Never the same again under one key, and none is used for two directions.
  unsigned char nonce[kNonceBytes] = {};
  std::memcpy(nonce, &number, sizeof number);
  return context_->Begin(needs_key ? &key_ : nullptr, nonce);
}

bool Cipher::Seal(const void* plain, size_t size_bytes, std::byte* sealed) {
  const Libcrypto& crypto = context_->crypto;
  int written = 0;
  return BeginPiece() &&
         crypto.seal_update(context_->evp, Raw(sealed), &written,
                            static_cast<const unsigned char*>(plain),
                            static_cast<int>(size_bytes)) == 1 &&
         crypto.seal_final(context_->evp, Raw(sealed) + size_bytes, &written) == 1 &&
         crypto.control(context_->evp, Libcrypto::kGetTag, kTagBytes, sealed + size_bytes) == 1;
}

bool Cipher::Open(std::byte* data, size_t size_bytes, const std::byte* tag) {
  const Libcrypto& crypto = context_->crypto;
  unsigned char expected[kTagBytes];
  std::memcpy(expected, tag, sizeof expected);
  int written = 0;
  const bool is_right =
      BeginPiece() &&
      crypto.open_update(context_->evp, Raw(data), &written, Raw(data),
                         static_cast<int>(size_bytes)) == 1 &&
      crypto.control(context_->evp, Libcrypto::kSetTag, sizeof expected, expected) == 1 &&
      crypto.open_final(context_->evp, Raw(data) + size_bytes, &written) == 1;
  // It is what an attacker made of it.
  if (!is_right) std::memset(data, 0, size_bytes);
  return is_right;
}

}  // namespace lockstep::collective::tcp
