// How what goes through a tree shows who has said it, whoever passes it on.
//
// Downwards the controller signs (Ed25519): any worker can check that, and none can imitate it, as
// each could with a key that all share. It signs a digest (BLAKE2b) of all that leaves together.
// Upwards each worker has a key of its own with the controller, which makes a tag (BLAKE2b with a
// key): a hundred times cheaper, and the controller is the only one to check it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "runtime/control/channel.h"

namespace lockstep::control {

using StreamSignature = std::array<unsigned char, 64>;

struct StreamPublicKey {
  std::array<unsigned char, 32> bytes{};

  // True if the owner of this key has signed `note` and `frames`.
  bool Signed(const StreamSignature& signature, absl::Span<const std::byte> note,
              absl::Span<const Frame> frames) const;
};

// A key pair, made from the system's random numbers; wiped from memory at its end.
class StreamSigner {
 public:
  StreamSigner();
  ~StreamSigner();
  StreamSigner(const StreamSigner&) = delete;
  StreamSigner& operator=(const StreamSigner&) = delete;

  const StreamPublicKey& public_key() const { return public_key_; }
  StreamSignature Sign(absl::Span<const std::byte> note, absl::Span<const Frame> frames) const;

 private:
  StreamPublicKey public_key_;
  std::array<unsigned char, 64> secret_;
};

using AnswerTag = std::array<unsigned char, 16>;

// What one worker and the controller know, and nobody else.
struct AnswerKey {
  std::array<unsigned char, 32> bytes{};

  static AnswerKey New();
  // Of the worker's message `number`.
  AnswerTag TagOf(uint64_t number, absl::Span<const Frame> frames) const;
};
// Takes as long for whatever is different.
bool AreSame(const AnswerTag& a, const AnswerTag& b);

}  // namespace lockstep::control
