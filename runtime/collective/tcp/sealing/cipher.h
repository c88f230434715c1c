// What protects one direction of a connection: AES-256-GCM under a key that only its two ends have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/status.h"

namespace lockstep::collective::tcp {

// Pieces are opened in the order in which they were sealed: each has a number, which is nowhere on
// the wire. So a piece that was changed, repeated, moved or left out opens as nothing, nor does
// what follows. After some gigabytes the key is replaced by one that follows from it, on both ends
// alike.
//
// The work is that of OpenSSL's libcrypto, which is loaded when a cipher is made first.
//
// Threads: one at a time; another cipher may be used at the same time. The key is wiped at the end.
class Cipher {
 public:
  static constexpr size_t kKeyBytes = 32;
  // What a piece is longer by once it is sealed.
  static constexpr size_t kTagBytes = 16;
  // Then comes another key: some gigabytes of chunks. No key protects so much that what it makes of
  // it could be told from chance.
  static constexpr uint64_t kPiecesPerKey = uint64_t{1} << 16;

  using Key = std::array<unsigned char, kKeyBytes>;
  enum class Use { kSeal, kOpen };

  // OK if this host has what ciphers need. Errors: kFailedPrecondition, with what to install.
  static Status Available();
  // The errors of Available(); kResourceExhausted: no memory.
  static StatusOr<std::unique_ptr<Cipher>> Create(Use use, const Key& key);
  ~Cipher();
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;

  // Writes `size_bytes` of `plain`, sealed, and a tag behind them to `sealed`. False only where
  // there is no memory: then nothing of `sealed` may be sent.
  [[nodiscard]] bool Seal(const void* plain, size_t size_bytes, std::byte* sealed);
  // Makes of the next sealed piece what it was, in its place. False: it is not what the other end
  // has sealed; then the place is filled with zeros, and this cipher is of no use any more.
  [[nodiscard]] bool Open(std::byte* data, size_t size_bytes, const std::byte* tag);
  // Leaves the next piece out: nobody reads it.
  [[nodiscard]] bool Skip() { return BeginPiece(); }

 private:
  struct Context;

  Cipher(std::unique_ptr<Context> context, const Key& key);
  // Numbers the next piece, under the next key where it is time for that.
  bool BeginPiece();

  const std::unique_ptr<Context> context_;
  Key key_;
  uint64_t pieces_ = 0;
};

}  // namespace lockstep::collective::tcp
