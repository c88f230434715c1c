#include "runtime/control/keys/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace lockstep::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class KeyFileTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(directory_.data()), nullptr); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text, mode_t mode) const {
    std::ofstream(Path(name)) << text;
    chmod(Path(name).c_str(), mode);
    return Path(name);
  }

  std::string directory_ = testing::TempDir() + "/keysXXXXXX";
  const KeyPair pair_ = NewKeyPair();
};

TEST_F(KeyFileTest, WhatIsWrittenIsReadAndNobodyElseMayReadIt) {
  ASSERT_EQ(WriteKeyFile(Path("a.key"), pair_, "trainer"), OkStatus());
  const StatusOr<KeyPair> read = ReadKeyFile(Path("a.key"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->public_key, pair_.public_key);
  EXPECT_EQ(read->secret_key.bytes(), pair_.secret_key.bytes());
  struct stat file {};
  ASSERT_EQ(stat(Path("a.key").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(KeyFileTest, NoKeyIsOverwrittenUnlessAsked) {
  ASSERT_EQ(WriteKeyFile(Path("a.key"), pair_, "trainer"), OkStatus());
  EXPECT_EQ(WriteKeyFile(Path("a.key"), NewKeyPair(), "x").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadKeyFile(Path("a.key"))->public_key, pair_.public_key);
  const KeyPair next = NewKeyPair();
  EXPECT_EQ(ReplaceKeyFile(Path("a.key"), next, "trainer"), OkStatus());
  EXPECT_EQ(ReadKeyFile(Path("a.key"))->public_key, next.public_key);
  // No draft stays behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_),
                          std::filesystem::directory_iterator()),
            1);
}

TEST_F(KeyFileTest, FileThatOthersMayReadIsRefused) {
  const std::string text = pair_.secret_key.SecretText() + "\n";
  for (const mode_t mode : {0644u, 0604u, 0660u, 0602u, 0620u, 0601u}) {
    const Status status = ReadKeyFile(Write("a.key", text, mode)).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << std::oct << mode;
    EXPECT_THAT(Message(status), AllOf(HasSubstr("chmod 600 " + Path("a.key")),
                                       Not(HasSubstr(pair_.secret_key.SecretText()))));
  }
  for (const mode_t mode : {0600u, 0400u}) {
    EXPECT_EQ(ReadKeyFile(Write("b.key", text, mode)).status(), OkStatus()) << std::oct << mode;
    unlink(Path("b.key").c_str());
  }
}

TEST_F(KeyFileTest, FilesWithoutOneKeyAreRefused) {
  const std::string secret = pair_.secret_key.SecretText();
  for (const std::string& text :
       {std::string(), std::string("# nothing\n"), secret + "\n" + secret + "\n",
        std::string("lsk_short\n"), pair_.public_key.Text() + "\n", "key: " + secret + "\n"}) {
    const Status status = ReadKeyFile(Write("a.key", text, 0600)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(Message(status), AllOf(HasSubstr(Path("a.key")), Not(HasSubstr(secret)))) << text;
  }
  EXPECT_EQ(ReadKeyFile(Write("b.key", "# mine\n\n  " + secret + " \r\n", 0600)).status(),
            OkStatus());
}

TEST_F(KeyFileTest, WhatIsNoFileIsRefused) {
  EXPECT_EQ(ReadKeyFile(Path("none")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadKeyFile(directory_).status().code(), StatusCode::kInvalidArgument);
  // A process that opened it in the ordinary way would wait for a writer.
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadKeyFile(Path("pipe")).status().code(), StatusCode::kInvalidArgument);
  Write("large.key", "", 0600);
  ASSERT_EQ(truncate(Path("large.key").c_str(), off_t{1} << 40), 0);
  EXPECT_EQ(ReadKeyFile(Path("large.key")).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(KeyFileTest, PublicKeysComeFromTextOrFile) {
  const PublicKey other = NewKeyPair().public_key;
  EXPECT_EQ(*ReadPublicKeys(other.Text()), std::vector<PublicKey>{other});
  const std::string path =
      Write("public", "# two\n" + pair_.public_key.Text() + "\n" + other.Text() + "\n", 0644);
  EXPECT_EQ(*ReadPublicKeys(path), (std::vector<PublicKey>{pair_.public_key, other}));
  EXPECT_EQ(ReadPublicKeys(Write("empty", "# none\n", 0644)).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(ReadPublicKeys(Write("bad", "lpk_x\n", 0644)).status()),
              HasSubstr(Path("bad")));
  EXPECT_EQ(ReadPublicKeys("lpk_nonsense").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(KeyFileTest, TrustedFileMustNotBeWritableByOthers) {
  for (const mode_t mode : {0666u, 0622u, 0620u, 0602u}) {
    const Status status = ReadTrustedFile(Write("allowed", "x", mode)).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << std::oct << mode;
    EXPECT_THAT(Message(status), HasSubstr("chmod go-w"));
  }
  EXPECT_EQ(*ReadTrustedFile(Write("good", "x", 0644)), "x");
}

TEST_F(KeyFileTest, FileThatOthersMayReplaceIsRefused) {
  const std::string path = Write("allowed", "x", 0644);
  ASSERT_EQ(chmod(directory_.c_str(), 0777), 0);
  const Status status = ReadTrustedFile(path).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Message(status),
              HasSubstr("chmod go-w " + std::filesystem::canonical(directory_).string()));
  // As /tmp is: all users may make files there, and each may replace only their own.
  ASSERT_EQ(chmod(directory_.c_str(), 01777), 0);
  EXPECT_EQ(ReadTrustedFile(path).status(), OkStatus());
}

TEST_F(KeyFileTest, LinkThatOthersMayReplaceIsRefused) {
  Write("allowed", "x", 0644);
  const std::string shared = Path("shared");
  ASSERT_TRUE(std::filesystem::create_directory(shared));
  ASSERT_EQ(symlink("../allowed", (shared + "/link").c_str()), 0);
  EXPECT_EQ(*ReadTrustedFile(shared + "/link"), "x");
  ASSERT_EQ(chmod(shared.c_str(), 0777), 0);
  EXPECT_EQ(ReadTrustedFile(shared + "/link").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ReadTrustedFile(Path("allowed")).status(), OkStatus());
}

TEST_F(KeyFileTest, DirectoriesFurtherUpCount) {
  ASSERT_TRUE(std::filesystem::create_directories(Path("a/b")));
  const std::string list = Write("a/b/allowed", "x", 0644);
  ASSERT_EQ(WriteKeyFile(Path("a/b/my.key"), pair_, "me"), OkStatus());
  ASSERT_EQ(chmod(Path("a").c_str(), 0777), 0);
  EXPECT_EQ(ReadTrustedFile(list).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ReadKeyFile(Path("a/b/my.key")).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ReplaceKeyFile(Path("a/b/my.key"), NewKeyPair(), "me").code(),
            StatusCode::kPermissionDenied);
}

TEST_F(KeyFileTest, OnlyAFileIsReplaced) {
  EXPECT_EQ(ReplaceKeyFile(directory_, pair_, "me").code(), StatusCode::kInvalidArgument);
}

TEST_F(KeyFileTest, SecretAsAFileNameIsNotRepeated) {
  const std::string secret = pair_.secret_key.SecretText();
  for (const Status& status :
       {ReadKeyFile(Path(secret)).status(), ReadTrustedFile(Path(secret)).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound);
    EXPECT_THAT(Message(status), Not(HasSubstr(secret.substr(4))));
  }
}

TEST_F(KeyFileTest, SecretWherePublicKeysBelongIsNotRepeated) {
  const std::string secret = pair_.secret_key.SecretText();
  for (const std::string& text : {secret, "./" + secret, Write("public", secret + "\n", 0600)}) {
    const Status status = ReadPublicKeys(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(Message(status), Not(HasSubstr(secret.substr(4))));
  }
}

TEST_F(KeyFileTest, WrittenFileKeepsItsOwnerAndItsLink) {
  const std::string path = Write("allowed", "before", 0644);
  // Where that is allowed, to another than the one that new files get.
  const bool is_given_away = chown(path.c_str(), 12'345, 23'456) == 0;
  RecordProperty("given_away", is_given_away ? "yes" : "no");
  struct stat before {};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  ASSERT_EQ(symlink("allowed", Path("link").c_str()), 0);
  ASSERT_EQ(WriteFileWhole(Path("link"), "after", 0640), OkStatus());
  struct stat after {};
  ASSERT_EQ(stat(path.c_str(), &after), 0);
  EXPECT_EQ(after.st_uid, before.st_uid);
  EXPECT_EQ(after.st_gid, before.st_gid);
  EXPECT_EQ(after.st_mode & 0777, 0640u);
  EXPECT_EQ(after.st_size, 5);
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
}

TEST_F(KeyFileTest, FileThatNoCrashOutlivesIsWrittenWholeToo) {
  const std::string path = Write("worker.yaml", "before, and longer", 0644);
  ASSERT_EQ(WriteFileWhole(path, "after", 0600, AfterCrash::kAnything), OkStatus());
  std::ifstream file(path);
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "after");
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // No draft stays behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_),
                          std::filesystem::directory_iterator()),
            1);
}

}  // namespace
}  // namespace lockstep::control
