#include "runtime/control/keys/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "runtime/control/keys/key_file.h"

namespace lockstep::control {
namespace {

TEST(CredentialsTest, NoKeysMeanNoCredentials) {
  const auto source = CredentialsFrom("", "");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_FALSE(*source);
}

TEST(CredentialsTest, OneKeyWithoutTheOtherIsRefused) {
  const KeyPair pair = NewKeyPair();
  EXPECT_EQ(CredentialsFrom(pair.secret_key.SecretText(), "").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CredentialsFrom("", pair.public_key.Text()).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(CredentialsTest, FilesAreReadAgainEachTime) {
  std::string directory = testing::TempDir() + "/gateXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/own.key";
  const PublicKey listener = NewKeyPair().public_key;
  const KeyPair first = NewKeyPair();
  const KeyPair second = NewKeyPair();
  EXPECT_EQ(CredentialsFrom(path, listener.Text()).status().code(), StatusCode::kNotFound);
  ASSERT_EQ(WriteKeyFile(path, first, "me"), OkStatus());
  const auto source = CredentialsFrom(path, listener.Text());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)()->own.public_key, first.public_key);
  EXPECT_EQ((*source)()->listeners, std::vector<PublicKey>{listener});
  ASSERT_EQ(ReplaceKeyFile(path, second, "me"), OkStatus());
  EXPECT_EQ((*source)()->own.public_key, second.public_key);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace lockstep::control
