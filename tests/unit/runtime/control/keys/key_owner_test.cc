// Files that are not this process's own. To make such, the tests must run as root.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/control/keys/allow_list.h"
#include "runtime/control/keys/key_file.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;

constexpr uid_t kStranger = 12'345;
constexpr uid_t kService = 23'456;

class KeyOwnerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    store_ = directory_ + "/st";
    key_ = store_ + "/x.key";
    ASSERT_TRUE(std::filesystem::create_directory(store_));
    if (geteuid() != 0 || chown(store_.c_str(), kService, kService) != 0) {
      GTEST_SKIP() << "only root can give files away";
    }
    ASSERT_EQ(chown(store_.c_str(), 0, 0), 0);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // `mode` and `owner` of the directory that the files are in.
  void Store(mode_t mode, uid_t owner) const {
    ASSERT_EQ(chown(store_.c_str(), owner, owner), 0);
    ASSERT_EQ(chmod(store_.c_str(), mode), 0);
  }
  void Write(const std::string& path, uid_t owner) const {
    std::ofstream(path) << "before\n";
    ASSERT_EQ(chown(path.c_str(), owner, owner), 0);
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  }
  // The file's text; its owner goes to `owner`.
  static std::string Read(const std::string& path, uid_t* owner) {
    struct stat file {};
    stat(path.c_str(), &file);
    *owner = file.st_uid;
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void ExpectRefused() const {
    const Status status = ReplaceKeyFile(key_, NewKeyPair(), "x");
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
  }

  std::string directory_ = testing::TempDir() + "/ownersXXXXXX";
  std::string store_;
  std::string key_;
};

TEST_F(KeyOwnerTest, NobodyGetsAKeyByHavingMadeAFileInASharedDirectory) {
  Store(01777, 0);
  Write(key_, kStranger);
  ExpectRefused();
  uid_t owner = 0;
  EXPECT_EQ(Read(key_, &owner), "before\n");
  EXPECT_EQ(owner, kStranger);
}

TEST_F(KeyOwnerTest, LinkInASharedDirectoryOverwritesNothing) {
  Store(01777, 0);
  const std::string roots = directory_ + "/roots";
  Write(roots, 0);
  ASSERT_EQ(symlink(roots.c_str(), key_.c_str()), 0);
  ASSERT_EQ(lchown(key_.c_str(), kStranger, kStranger), 0);
  ExpectRefused();
  uid_t owner = 0;
  EXPECT_EQ(Read(roots, &owner), "before\n");
}

TEST_F(KeyOwnerTest, LinkInAStrangersDirectoryOverwritesNothing) {
  Store(0755, kStranger);
  const std::string other = directory_ + "/other.key";
  ASSERT_EQ(symlink(other.c_str(), key_.c_str()), 0);
  for (const uid_t owner : {uid_t{0}, kService}) {
    Write(other, owner);
    ExpectRefused();
    uid_t still = 0;
    EXPECT_EQ(Read(other, &still), "before\n");
  }
}

TEST_F(KeyOwnerTest, RootRotatesTheKeyOfAService) {
  for (const uid_t directory_owner : {uid_t{0}, kService}) {
    Store(0755, directory_owner);
    Write(key_, kService);
    const KeyPair next = NewKeyPair();
    ASSERT_EQ(ReplaceKeyFile(key_, next, "x"), OkStatus());
    uid_t owner = 0;
    EXPECT_THAT(Read(key_, &owner), HasSubstr(next.secret_key.SecretText()));
    EXPECT_EQ(owner, kService);
  }
  Store(0757, kService);
  ExpectRefused();
}

TEST_F(KeyOwnerTest, ListInAStrangersDirectoryIsRefused) {
  Write(store_ + "/allowed", 0);
  EXPECT_EQ(ReadTrustedFile(store_ + "/allowed").status(), OkStatus());
  Store(0755, kStranger);
  const Status status = ReadTrustedFile(store_ + "/allowed").status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr("do this as that user"));
}

TEST_F(KeyOwnerTest, LockFileOfAStrangerIsRefused) {
  Write(store_ + "/allowed.lock", kStranger);
  EXPECT_EQ(ListLock::Take(store_ + "/allowed", Deadline::After({})).status().code(),
            StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace lockstep::control
