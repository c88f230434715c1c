// The ciphers of both ends of a connection, whose keys these tests know.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "runtime/collective/tcp/connection.h"

namespace lockstep::collective::tcp {

inline Cipher::Key KeyOf(unsigned char seed) {
  Cipher::Key key = {};
  key.fill(seed);
  return key;
}

inline std::unique_ptr<Cipher> MakeCipher(Cipher::Use use, const Cipher::Key& key) {
  auto cipher = Cipher::Create(use, key);
  EXPECT_TRUE(cipher.ok()) << cipher.status();
  return cipher.ok() ? *std::move(cipher) : nullptr;
}

inline std::pair<Ciphers, Ciphers> SealedEnds() {
  const Cipher::Key there = KeyOf(1);
  const Cipher::Key back = KeyOf(2);
  Ciphers one{MakeCipher(Cipher::Use::kSeal, there), MakeCipher(Cipher::Use::kOpen, back)};
  Ciphers other{MakeCipher(Cipher::Use::kSeal, back), MakeCipher(Cipher::Use::kOpen, there)};
  return {std::move(one), std::move(other)};
}

}  // namespace lockstep::collective::tcp
