#include "runtime/control/tree/tree_keys.h"

#include <sodium.h>

namespace lockstep::control {
namespace {

using StreamDigest = std::array<unsigned char, 32>;

static_assert(crypto_sign_BYTES == std::tuple_size_v<StreamSignature>);
static_assert(crypto_sign_PUBLICKEYBYTES == 32 && crypto_sign_SECRETKEYBYTES == 64);

void AddBytes(crypto_generichash_state& state, const void* bytes, size_t size) {
  crypto_generichash_update(&state, static_cast<const unsigned char*>(bytes), size);
}

// With their sizes, so that no two lists of frames are the same bytes.
void AddFrames(crypto_generichash_state& state, absl::Span<const Frame> frames) {
  for (const Frame& frame : frames) {
    const uint64_t size = frame.size();
    AddBytes(state, &size, sizeof size);
    AddBytes(state, frame.data(), frame.size());
  }
}

StreamDigest DigestOf(absl::Span<const std::byte> note, absl::Span<const Frame> frames) {
  crypto_generichash_state state;
  StreamDigest digest;
  crypto_generichash_init(&state, nullptr, 0, digest.size());
  AddBytes(state, note.data(), note.size());
  AddFrames(state, frames);
  crypto_generichash_final(&state, digest.data(), digest.size());
  return digest;
}

}  // namespace

bool StreamPublicKey::Signed(const StreamSignature& signature, absl::Span<const std::byte> note,
                             absl::Span<const Frame> frames) const {
  const StreamDigest digest = DigestOf(note, frames);
  return crypto_sign_verify_detached(signature.data(), digest.data(), digest.size(),
                                     bytes.data()) == 0;
}

StreamSigner::StreamSigner() {
  if (sodium_init() >= 0) crypto_sign_keypair(public_key_.bytes.data(), secret_.data());
}

StreamSigner::~StreamSigner() { sodium_memzero(secret_.data(), secret_.size()); }

StreamSignature StreamSigner::Sign(absl::Span<const std::byte> note,
                                   absl::Span<const Frame> frames) const {
  const StreamDigest digest = DigestOf(note, frames);
  StreamSignature signature;
  crypto_sign_detached(signature.data(), nullptr, digest.data(), digest.size(), secret_.data());
  return signature;
}

AnswerKey AnswerKey::New() {
  AnswerKey key;
  randombytes_buf(key.bytes.data(), key.bytes.size());
  return key;
}

AnswerTag AnswerKey::TagOf(uint64_t number, absl::Span<const Frame> frames) const {
  crypto_generichash_state state;
  AnswerTag tag;
  crypto_generichash_init(&state, bytes.data(), bytes.size(), tag.size());
  AddBytes(state, &number, sizeof number);
  AddFrames(state, frames);
  crypto_generichash_final(&state, tag.data(), tag.size());
  return tag;
}

bool AreSame(const AnswerTag& a, const AnswerTag& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace lockstep::control
