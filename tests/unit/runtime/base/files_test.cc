#include "runtime/base/files.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kStranger = 12'345;
constexpr int kSkipped = 77;

// The exit code of a child that runs `body` as `user`.
int RunAs(uid_t user, gid_t group, const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    const bool is_user = setgroups(0, nullptr) == 0 && setresgid(group, group, group) == 0 &&
                         setresuid(user, user, user) == 0;
    _exit(is_user ? body() : kSkipped);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class TrustedPathTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(root_.data()), nullptr);
    fs::create_directories(root_ + "/a/b");
    std::ofstream(root_ + "/a/b/file") << "x";
    for (const char* const name : {"", "/a", "/a/b"}) Mode(name, 0755);
    Mode("/a/b/file", 0644);
  }
  void TearDown() override { fs::remove_all(root_); }

  void Mode(const std::string& name, mode_t mode) const {
    ASSERT_EQ(chmod((root_ + name).c_str(), mode), 0);
  }
  bool GiveAway(const std::string& name) const {
    return geteuid() == 0 && lchown((root_ + name).c_str(), kStranger, 0) == 0;
  }
  Status Way(const std::string& name) const { return CheckDirectoriesTo(root_ + name); }
  void ExpectDenied(const Status& status, const std::string& mend) const {
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
    EXPECT_NE(Message(status).find(mend), std::string::npos) << status;
  }

  std::string root_ = testing::TempDir() + "/trustXXXXXX";
};

TEST_F(TrustedPathTest, WhatIsOursAloneIsTrusted) {
  EXPECT_EQ(CheckTrusted(root_ + "/a"), OkStatus());
  EXPECT_EQ(CheckTrusted(root_ + "/a/b/file"), OkStatus());
  EXPECT_EQ(Way("/a/b/file"), OkStatus());
  EXPECT_EQ(Way("/a/../a/./b/file"), OkStatus());
  EXPECT_EQ(Way("/a/b/not_there_yet"), OkStatus());
  EXPECT_TRUE(IsTrustedOwner(0));
  EXPECT_TRUE(IsTrustedOwner(geteuid()));
  EXPECT_FALSE(IsTrustedOwner(kStranger));
}

TEST_F(TrustedPathTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(CheckTrusted(root_ + "/none").code(), StatusCode::kNotFound);
  EXPECT_EQ(Way("/none/file").code(), StatusCode::kNotFound);
  EXPECT_EQ(Way("/a/b/file/below").code(), StatusCode::kNotFound);
  ASSERT_EQ(symlink("loop", (root_ + "/loop").c_str()), 0);
  EXPECT_FALSE(Way("/loop/file").ok());
}

TEST_F(TrustedPathTest, EachDirectoryOnTheWayCounts) {
  for (const char* const name : {"", "/a", "/a/b"}) {
    Mode(name, 0757);
    ExpectDenied(Way("/a/b/file"), "`chmod go-w " + fs::canonical(root_ + name).string() + "`");
    Mode(name, 0755);
  }
  Mode("/a/b/file", 0646);
  EXPECT_EQ(Way("/a/b/file"), OkStatus()) << "it leads to the file and says nothing of it";
  ExpectDenied(CheckTrusted(root_ + "/a/b/file"), "`chmod go-w ");
}

TEST_F(TrustedPathTest, DirectoriesOfLinksAndOfWhatTheyLeadToCount) {
  fs::create_directory(root_ + "/links");
  Mode("/links", 0755);
  ASSERT_EQ(symlink("../a/b", (root_ + "/links/relative").c_str()), 0);
  ASSERT_EQ(symlink((root_ + "/links/relative/file").c_str(), (root_ + "/absolute").c_str()), 0);
  EXPECT_EQ(Way("/absolute"), OkStatus());
  for (const char* const name : {"/links", "/a", "/a/b"}) {
    Mode(name, 0757);
    ExpectDenied(Way("/absolute"), "`chmod go-w " + fs::canonical(root_ + name).string() + "`");
    Mode(name, 0755);
  }
}

TEST_F(TrustedPathTest, SharedDirectoryIsAlrightForOwnFilesAlone) {
  Mode("/a", 01777);
  EXPECT_EQ(Way("/a/b/file"), OkStatus());
  EXPECT_EQ(Way("/a/not_there_yet"), OkStatus());
  ExpectDenied(CheckTrusted(root_ + "/a"), "`chmod ");
  ASSERT_EQ(symlink("b", (root_ + "/a/link").c_str()), 0);
  EXPECT_EQ(Way("/a/link/file"), OkStatus());
  if (!GiveAway("/a/link")) GTEST_SKIP() << "only root can give files away";
  ExpectDenied(Way("/a/link/file"), "user 12345 may put another file in the place of");
}

TEST_F(TrustedPathTest, DirectoryOfAStrangerIsNotTrusted) {
  if (!GiveAway("/a")) GTEST_SKIP() << "only root can give files away";
  ExpectDenied(Way("/a/b/file"), "do this as that user");
  ExpectDenied(CheckTrusted(root_ + "/a"), "`chown 0 ");
  EXPECT_EQ(CheckDirectoriesTo(root_ + "/a/b/file", kStranger), OkStatus());
  // A user who is trusted with their own directory has no say in one that every user may write to.
  Mode("", 01777);
  EXPECT_EQ(CheckDirectoriesTo(root_ + "/a/b/file", kStranger).code(),
            StatusCode::kPermissionDenied);
}

TEST_F(TrustedPathTest, GroupThatMayWriteIsAStranger) {
  if (chown((root_ + "/a").c_str(), static_cast<uid_t>(-1), kStranger) != 0) {
    GTEST_SKIP() << "only root can give files away";
  }
  Mode("/a", 0775);
  ExpectDenied(Way("/a/b/file"), "`chmod go-w ");
  ExpectDenied(CheckTrusted(root_ + "/a"), "`chmod go-w ");
  Mode("/a", 0777);
  ExpectDenied(CheckTrusted(root_ + "/a"), "`chmod go-w ");
}

// As umask 002 makes them. "daemon" has such a group wherever there is the user.
TEST_F(TrustedPathTest, PrivateGroupIsTheUserHimself) {
  const struct passwd* const daemon = getpwnam("daemon");
  const struct group* const group = getgrnam("daemon");
  if (geteuid() != 0 || daemon == nullptr || group == nullptr || group->gr_gid != daemon->pw_gid ||
      *group->gr_mem != nullptr) {
    GTEST_SKIP() << "needs root, and a user \"daemon\" with a group of its own";
  }
  if (chown((root_ + "/a").c_str(), daemon->pw_uid, group->gr_gid) != 0 ||
      chown((root_ + "/a/b").c_str(), daemon->pw_uid, 0) != 0) {
    GTEST_SKIP() << "only root can give files away";
  }
  Mode("/a", 0775);
  Mode("/a/b", 0775);
  const int code = RunAs(daemon->pw_uid, daemon->pw_gid, [&] {
    const bool is_there = access((root_ + "/a").c_str(), F_OK) == 0;
    if (!is_there) return kSkipped;
    const bool is_own = CheckTrusted(root_ + "/a").ok();
    const bool is_roots = CheckTrusted(root_ + "/a/b").ok();
    struct stat there {};
    stat((root_ + "/a").c_str(), &there);
    return is_own && !is_roots && !CheckTrustedFile("a", there).ok() ? 0 : 1;
  });
  if (code == kSkipped) GTEST_SKIP() << "another user does not get to " << root_;
  EXPECT_EQ(code, 0);
}

// Bazel's sandbox is such a place.
TEST_F(TrustedPathTest, RootIsTrustedWhereAUserNamespaceDoesNotKnowHim) {
  const int code = RunAs(kStranger, kStranger, [&] {
    prctl(PR_SET_DUMPABLE, 1);  // else /proc/self is root's
    if (unshare(CLONE_NEWUSER) != 0) return kSkipped;
    const int map = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    const std::string line = "12345 12345 1";
    const bool is_mapped = map >= 0 && write(map, line.data(), line.size()) > 0;
    close(map);
    struct stat top {};
    if (!is_mapped || stat("/", &top) != 0 || top.st_uid == 0) return kSkipped;
    return CheckDirectoriesTo("/some_file").ok() && !IsTrustedOwner(kStranger + 1) ? 0 : 1;
  });
  if (code == kSkipped) GTEST_SKIP() << "no user namespace can be made here";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace lockstep
