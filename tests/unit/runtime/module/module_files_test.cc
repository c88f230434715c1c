// Modules that are not this process's own. To make such, the tests must run as root.
#include "runtime/module/module_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::module {
namespace {

constexpr uid_t kStranger = 12'345;

class ModuleOwnerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    ASSERT_EQ(chmod(directory_.c_str(), 0755), 0);
    file_ = directory_ + "/m.so";
    std::ofstream(file_) << "a module";
    if (geteuid() != 0 || chown(file_.c_str(), kStranger, kStranger) != 0) {
      GTEST_SKIP() << "only root can give files away";
    }
    ASSERT_EQ(chown(file_.c_str(), 0, 0), 0);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  StatusOr<std::string> Find() const { return FindModule("m.so", {directory_}); }
  void ExpectRefused(const std::string& mend) const {
    const Status status = Find().status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
    EXPECT_NE(Message(status).find(mend), std::string::npos) << status;
  }

  std::string directory_ = testing::TempDir() + "/modulesXXXXXX";
  std::string file_;
};

TEST_F(ModuleOwnerTest, ModuleOfAnotherUserIsNotLoaded) {
  EXPECT_TRUE(Find().ok()) << Find().status();
  ASSERT_EQ(chown(file_.c_str(), kStranger, 0), 0);
  ExpectRefused("`chown 0 ");
  ASSERT_EQ(chown(file_.c_str(), 0, 0), 0);
  ASSERT_EQ(chown(directory_.c_str(), kStranger, 0), 0);
  ExpectRefused("`chown 0 ");
}

TEST_F(ModuleOwnerTest, WhatAGroupMayWriteIsNotLoaded) {
  ASSERT_EQ(chmod(file_.c_str(), 0664), 0);
  ExpectRefused("`chmod go-w ");
  ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  ASSERT_EQ(chmod(directory_.c_str(), 0775), 0);
  ExpectRefused("`chmod go-w ");
}

}  // namespace
}  // namespace lockstep::module
