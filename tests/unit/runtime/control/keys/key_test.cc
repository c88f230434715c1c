#include "runtime/control/keys/key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep::control {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(KeyTest, TextReadsBackAsTheSameKey) {
  for (int i = 0; i < 100; ++i) {
    const KeyPair pair = NewKeyPair();
    const StatusOr<PublicKey> known = ParsePublicKey(pair.public_key.Text());
    ASSERT_TRUE(known.ok()) << known.status();
    EXPECT_EQ(*known, pair.public_key);
    const StatusOr<SecretKey> secret = ParseSecretKey(pair.secret_key.SecretText());
    ASSERT_TRUE(secret.ok()) << secret.status();
    EXPECT_EQ(secret->bytes(), pair.secret_key.bytes());
  }
}

TEST(KeyTest, SecretKeyGivesItsPublicKey) {
  const KeyPair pair = NewKeyPair();
  EXPECT_EQ(PairOf(pair.secret_key).public_key, pair.public_key);
}

TEST(KeyTest, NoTwoKeysAreEqual) {
  std::set<PublicKey> keys;
  for (int i = 0; i < 100; ++i) keys.insert(NewKeyPair().public_key);
  EXPECT_EQ(keys.size(), 100u);
}

// They are pasted into shells, YAML and lists of words.
TEST(KeyTest, TextNeedsNoQuotes) {
  for (int i = 0; i < 100; ++i) {
    const std::string text = NewKeyPair().public_key.Text();
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-_"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.size(), 47u);
  }
}

TEST(KeyTest, WhatIsNoKeyIsRefused) {
  const std::string good = NewKeyPair().public_key.Text();
  for (const std::string& bad :
       {std::string(), std::string("lpk_"), good + "A", good.substr(0, good.size() - 1),
        good.substr(4), " " + good, good + "=", std::string("lpk_") + std::string(43, '!')}) {
    EXPECT_EQ(ParsePublicKey(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
  // The last letter has two bits that say nothing: one way to write a key is enough.
  std::string other = good.substr(0, good.size() - 1);
  int same = 0;
  for (const char last :
       std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")) {
    if (ParsePublicKey(other + last).ok()) ++same;
  }
  EXPECT_EQ(same, 16);
}

TEST(KeyTest, OneKindIsNotTakenForTheOtherAndNoSecretIsRepeated) {
  const KeyPair pair = NewKeyPair();
  const Status as_public = ParsePublicKey(pair.secret_key.SecretText()).status();
  EXPECT_EQ(as_public.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(as_public), Not(HasSubstr(pair.secret_key.SecretText().substr(4))));
  EXPECT_EQ(ParseSecretKey(pair.public_key.Text()).status().code(), StatusCode::kInvalidArgument);
  const std::string damaged = pair.secret_key.SecretText() + "x";
  EXPECT_THAT(Message(ParseSecretKey(damaged).status()), Not(HasSubstr(damaged.substr(4, 20))));
}

TEST(KeyTest, SecretOnACommandLineIsRefused) {
  const KeyPair pair = NewKeyPair();
  const std::string secret = pair.secret_key.SecretText();
  const std::string setting = "worker.key=" + secret;
  for (const std::string& text : {secret, setting}) {
    const char* const arguments[] = {"lockstep", "status", text.c_str()};
    const Status status = CheckNoSecrets(3, arguments);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status), Not(HasSubstr(secret.substr(4))));
  }
  const std::string public_key = pair.public_key.Text();
  const char* const arguments[] = {"lockstep", "keys", public_key.c_str()};
  EXPECT_EQ(CheckNoSecrets(3, arguments), OkStatus());
}

TEST(KeyTest, SecretsAreHiddenInTexts) {
  const std::string secret = NewKeyPair().secret_key.SecretText();
  EXPECT_EQ(HideSecrets("no such file: /a/" + secret + "/" + secret + ", " + secret),
            "no such file: /a/lsk_.../lsk_..., lsk_...");
  EXPECT_EQ(HideSecrets("lsk_... begins with lsk_"), "lsk_... begins with lsk_");
  EXPECT_EQ(HideSecrets("nothing"), "nothing");
  EXPECT_EQ(HideSecrets(""), "");
}

}  // namespace
}  // namespace lockstep::control
