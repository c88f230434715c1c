#include "services/local/temporary_directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include "tests/support/files.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;

class TemporaryDirectoryTest : public testing::Test {
 protected:
  const support::ScopedTmpDir base_;
};

TEST_F(TemporaryDirectoryTest, IsPrivateAndRemovedWithAllInIt) {
  std::string path;
  {
    const auto directory = TemporaryDirectory::Create();
    ASSERT_TRUE(directory.ok()) << directory.status();
    path = (*directory)->path();
    EXPECT_EQ(fs::path(path).parent_path(), base_.path());
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    fs::create_directory(path + "/sub");
    std::ofstream(path + "/sub/file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::is_empty(base_.path()));
}

TEST_F(TemporaryDirectoryTest, ThatOfADeadProcessIsSweptAndThatOfALiveOneIsNot) {
  const auto live = TemporaryDirectory::Create();
  ASSERT_TRUE(live.ok()) << live.status();
  const pid_t child = fork();
  if (child == 0) {
    const auto directory = TemporaryDirectory::Create();
    _exit(directory.ok() ? 0 : 1);  // as if killed: no destructor
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(base_.path()), {}), 2);
  const auto next = TemporaryDirectory::Create();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(std::distance(fs::directory_iterator(base_.path()), {}), 2);
  EXPECT_TRUE(fs::exists((*live)->path()));
}

TEST_F(TemporaryDirectoryTest, LinksAreNotFollowed) {
  const std::string victim = base_.path() + "/victim";
  fs::create_directory(victim);
  fs::create_directory_symlink(victim, base_.path() + "/lockstep-local-link");
  EXPECT_TRUE(TemporaryDirectory::Create().ok());
  EXPECT_TRUE(fs::exists(victim));
}

TEST_F(TemporaryDirectoryTest, ABaseThatIsMissingIsNamed) {
  setenv("TMPDIR", "/nonexistent", 1);
  const Status status = TemporaryDirectory::Create().status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_NE(Message(status).find("/nonexistent"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::local
