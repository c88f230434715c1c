#include "runtime/control/keys/allow_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::control {
namespace {

using testing::HasSubstr;

class ListLockTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    list_ = directory_ + "/allowed";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static Status Try(const std::string& list) {
    return ListLock::Take(list, Deadline::After({})).status();
  }

  std::string directory_ = testing::TempDir() + "/lockXXXXXX";
  std::string list_;
};

TEST_F(ListLockTest, OneAtATimeHasIt) {
  {
    const auto held = ListLock::Take(list_, Deadline::After({}));
    ASSERT_TRUE(held.ok()) << held.status();
    const Status other = Try(list_);
    EXPECT_EQ(other.code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Message(other), HasSubstr(list_ + ".lock"));
  }
  EXPECT_EQ(Try(list_), OkStatus());
}

TEST_F(ListLockTest, OtherNamesOfAListHaveItsLock) {
  std::ofstream(list_) << "# nobody\n";
  ASSERT_EQ(symlink("allowed", (directory_ + "/link").c_str()), 0);
  const auto held = ListLock::Take(directory_ + "/link", Deadline::After({}));
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(Try(list_).code(), StatusCode::kDeadlineExceeded);
}

TEST_F(ListLockTest, NobodyElseMayOpenTheFile) {
  ASSERT_EQ(Try(list_), OkStatus());
  struct stat file {};
  ASSERT_EQ(stat((list_ + ".lock").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST_F(ListLockTest, FileThatOthersCouldHoldIsRefused) {
  std::ofstream(list_ + ".lock") << "";
  for (const mode_t mode : {0644u, 0640u, 0602u}) {
    ASSERT_EQ(chmod((list_ + ".lock").c_str(), mode), 0);
    const Status status = Try(list_);
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << std::oct << mode;
    EXPECT_THAT(Message(status), HasSubstr("rm "));
  }
}

TEST_F(ListLockTest, LinkIsNotFollowed) {
  ASSERT_EQ(symlink("elsewhere", (list_ + ".lock").c_str()), 0);
  EXPECT_FALSE(Try(list_).ok());
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/elsewhere"));
}

}  // namespace
}  // namespace lockstep::control
