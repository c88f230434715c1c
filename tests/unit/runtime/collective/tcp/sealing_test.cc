#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/collective/tcp/sealing/cipher.h"
#include "runtime/collective/tcp/sealing/key_agreement.h"
#include "tests/unit/runtime/collective/tcp/sealed_ends.h"

namespace lockstep::collective::tcp {
namespace {

using ::testing::Each;

std::vector<std::byte> Sealed(Cipher& cipher, const std::vector<std::byte>& plain) {
  std::vector<std::byte> sealed(plain.size() + Cipher::kTagBytes);
  EXPECT_TRUE(cipher.Seal(plain.data(), plain.size(), sealed.data()));
  return sealed;
}

bool Open(Cipher& cipher, std::vector<std::byte>& sealed) {
  const size_t size = sealed.size() - Cipher::kTagBytes;
  return cipher.Open(sealed.data(), size, sealed.data() + size);
}

// Test case 14 of "The Galois/Counter Mode of Operation" (McGrew, Viega): the first piece's nonce
// is zero, too.
TEST(CipherTest, TheFirstPieceIsWhatThePaperSays) {
  const auto cipher = MakeCipher(Cipher::Use::kSeal, KeyOf(0));
  const unsigned char right[] = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5,
                                 0xd3, 0xba, 0xf3, 0x9d, 0x18, 0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99,
                                 0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
  const std::vector<std::byte> sealed = Sealed(*cipher, std::vector<std::byte>(16));
  EXPECT_EQ(std::memcmp(sealed.data(), right, sizeof right), 0);
}

TEST(CipherTest, EqualPiecesAreNeverSealedAlike) {
  const auto seal = MakeCipher(Cipher::Use::kSeal, KeyOf(1));
  const auto open = MakeCipher(Cipher::Use::kOpen, KeyOf(1));
  const std::vector<std::byte> plain(20, std::byte{7});
  // The key is replaced twice on the way.
  std::vector<std::byte> first;
  for (uint64_t i = 0; i <= 2 * Cipher::kPiecesPerKey; ++i) {
    std::vector<std::byte> sealed = Sealed(*seal, plain);
    if (i == 0) first = sealed;
    if (i > 0) {
      ASSERT_NE(sealed, first) << i;
    }
    ASSERT_TRUE(Open(*open, sealed)) << i;
    sealed.resize(plain.size());
    ASSERT_EQ(sealed, plain) << i;
  }
}

TEST(CipherTest, OnlyTheNextPieceOpens) {
  const auto seal = MakeCipher(Cipher::Use::kSeal, KeyOf(1));
  std::vector<std::vector<std::byte>> pieces;
  for (int i = 0; i < 3; ++i) pieces.push_back(Sealed(*seal, std::vector<std::byte>(40)));
  for (const size_t wrong : {0, 2}) {
    const auto open = MakeCipher(Cipher::Use::kOpen, KeyOf(1));
    std::vector<std::byte> piece = pieces[0];
    EXPECT_TRUE(Open(*open, piece));
    piece = pieces[wrong];
    EXPECT_FALSE(Open(*open, piece)) << wrong;
    piece.resize(40);
    EXPECT_THAT(piece, Each(std::byte{0})) << "nothing of what is not authentic is left";
  }
  const auto open = MakeCipher(Cipher::Use::kOpen, KeyOf(1));
  EXPECT_TRUE(open->Skip());
  EXPECT_TRUE(Open(*open, pieces[1])) << "a piece that nobody reads is left out on purpose";
  const auto other = MakeCipher(Cipher::Use::kOpen, KeyOf(3));
  EXPECT_FALSE(Open(*other, pieces[0]));
}

KeyAgreement::Ends EndsOf(bool is_caller) {
  return {.team = 7,
          .called_rank = 0,
          .calling_rank = 1,
          .called_secret = "a",
          .calling_secret = "b",
          .is_caller = is_caller};
}

TEST(KeyAgreementTest, BothEndsDeriveTheSameAndNobodyElse) {
  const KeyAgreement called;
  const KeyAgreement calling;
  const auto here = called.Agree(EndsOf(false), calling.public_key());
  const auto there = calling.Agree(EndsOf(true), called.public_key());
  ASSERT_TRUE(here.ok() && there.ok());
  EXPECT_EQ(here->send, there->receive);
  EXPECT_EQ(here->receive, there->send);
  EXPECT_EQ(here->hello, there->hello);
  EXPECT_NE(here->send, here->receive) << "else what a rank has sent could be sent back to it";

  // Another key, attempt, pair of ranks or secret makes other keys.
  const KeyAgreement another;
  std::vector<KeyAgreement::Ends> others(5, EndsOf(true));
  others[0].team = 8;
  others[1].called_rank = 2;
  others[2].calling_rank = 2;
  others[3].called_secret = "c";
  others[4].calling_secret = "c";
  for (const KeyAgreement::Ends& ends : others) {
    const auto different = calling.Agree(ends, called.public_key());
    ASSERT_TRUE(different.ok());
    EXPECT_NE(different->send, there->send);
    EXPECT_NE(different->hello, there->hello);
  }
  const auto stranger = another.Agree(EndsOf(true), called.public_key());
  ASSERT_TRUE(stranger.ok());
  EXPECT_NE(stranger->send, there->send);
  EXPECT_NE(stranger->hello, there->hello);
}

// With some keys all shared secrets are the same; RFC 7748, section 6.1.
TEST(KeyAgreementTest, WhatIsNoKeyIsRefused) {
  const KeyAgreement own;
  const std::string zeros(64, '0');
  std::string one = zeros;
  one[1] = '1';
  for (const std::string& key : {std::string(), std::string("-"), zeros, one, zeros + "00",
                                 std::string(64, 'x'), own.public_key().substr(2)}) {
    EXPECT_EQ(own.Agree(EndsOf(true), key).status().code(), StatusCode::kInvalidArgument) << key;
  }
}

}  // namespace
}  // namespace lockstep::collective::tcp
