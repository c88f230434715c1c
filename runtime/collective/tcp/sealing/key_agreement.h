// Keys that two ranks agree upon, and nobody else knows.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runtime/base/status.h"
#include "runtime/collective/tcp/sealing/cipher.h"

namespace lockstep::collective::tcp {

// What one end of a connection derives: its `send` is the other's `receive`.
struct ConnectionKeys {
  Cipher::Key send;
  Cipher::Key receive;
  // What the caller begins with: who knows it has the other keys, too, and it tells nothing of
  // them.
  std::array<char, 32> hello;

  // Wipes them.
  ~ConnectionKeys();
};

// A pair of keys for one attempt of a rank to connect with others, by X25519: the ranks tell each
// other their public keys over the rendezvous, which has to bring them unchanged, and need not keep
// them secret. Whoever records all of that, and everything sent later, can read nothing of it, even
// with all that the processes know once the pair is gone.
//
// Threads: one at a time. The secret key is wiped at the end.
class KeyAgreement {
 public:
  KeyAgreement();
  ~KeyAgreement();
  KeyAgreement(const KeyAgreement&) = delete;
  KeyAgreement& operator=(const KeyAgreement&) = delete;

  // As hexadecimal digits.
  const std::string& public_key() const { return public_text_; }

  // One end of a connection, in a way that is the same on both ends: the caller is the rank that
  // connects to the other one.
  struct Ends {
    uint64_t team = 0;  // another one for each attempt
    uint64_t called_rank = 0;
    uint64_t calling_rank = 0;
    // What each of them has told its peers beside its key.
    std::string called_secret = {};
    std::string calling_secret = {};
    bool is_caller = false;  // this end
  };
  // Errors: kInvalidArgument: the other end's key is none.
  StatusOr<ConnectionKeys> Agree(const Ends& ends, const std::string& other_public_key) const;

 private:
  static constexpr size_t kCurveBytes = 32;

  std::array<unsigned char, kCurveBytes> secret_;
  std::array<unsigned char, kCurveBytes> public_;
  std::string public_text_;
};

}  // namespace lockstep::collective::tcp
