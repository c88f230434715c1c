#include "services/worker/fragment/object_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/files.h"
#include "tests/unit/services/worker/fragment/processes.h"

namespace lockstep::worker {
namespace {

using fragment::ObjectKey;
using fragment::Patience;
using std::chrono::seconds;
using testing::Each;
using testing::HasSubstr;

constexpr ObjectKey kKey{1, 40};
constexpr ObjectKey kOther{1, 50};

class ObjectDirectoryTest : public testing::Test {
 protected:
  StatusOr<ObjectDirectory> Open(uint64_t max_bytes = ObjectDirectory::kDefaultMaxBytes) const {
    return ObjectDirectory::Open(path_, max_bytes);
  }
  ObjectDirectory MustOpen() const {
    auto directory = Open();
    EXPECT_TRUE(directory.ok()) << directory.status();
    return *std::move(directory);
  }
  std::string FileOf(const ObjectKey& key) const {
    return path_ + "/" + key.ToString() + ".object";
  }
  static Patience Now() { return {Deadline::After(seconds(0))}; }
  static Patience Long() { return {Deadline::After(seconds(60))}; }

  const support::ScratchDirectory scratch_;
  const std::string path_ = scratch_.File("objects");
};

TEST_F(ObjectDirectoryTest, WhatIsStoredIsLoadedByAll) {
  const ObjectDirectory directory = MustOpen();
  EXPECT_EQ(directory.Load(kKey), std::nullopt);
  EXPECT_TRUE(directory.Store(kKey, "compiled").ok());
  EXPECT_EQ(directory.Load(kKey), "compiled");
  EXPECT_EQ(MustOpen().Load(kKey), "compiled");
  EXPECT_TRUE(directory.Store(kKey, "").ok()) << "replaced";
  EXPECT_EQ(directory.Load(kKey), "");
  EXPECT_EQ(directory.Load(kOther), std::nullopt);
  struct stat made {};
  ASSERT_EQ(stat(path_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700u);
}

TEST_F(ObjectDirectoryTest, DamagedAndTruncatedFilesAreMissing) {
  const ObjectDirectory directory = MustOpen();
  ASSERT_TRUE(directory.Store(kKey, "compiled").ok());
  const std::string whole = support::ReadFile(FileOf(kKey));
  const auto write = [&](const std::string& content) {
    std::ofstream(FileOf(kKey), std::ios::binary) << content;
  };
  // In each field, and in the bytes.
  for (const size_t i : {0u, 8u, 16u, 24u, 31u, 32u, 39u, 40u, 47u}) {
    ASSERT_LT(i, whole.size());
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    write(damaged);
    EXPECT_EQ(directory.Load(kKey), std::nullopt) << "byte " << i;
    write(whole.substr(0, i));
    EXPECT_EQ(directory.Load(kKey), std::nullopt) << "cut off after " << i;
  }
  write(whole + "x");
  EXPECT_EQ(directory.Load(kKey), std::nullopt);
  write(whole);
  EXPECT_EQ(directory.Load(kKey), "compiled");
}

TEST_F(ObjectDirectoryTest, WhatBelongsToAnotherKeyIsMissing) {
  const ObjectDirectory directory = MustOpen();
  ASSERT_TRUE(directory.Store(kOther, "other").ok());
  std::filesystem::rename(FileOf(kOther), FileOf(kKey));
  EXPECT_EQ(directory.Load(kKey), std::nullopt);
}

TEST_F(ObjectDirectoryTest, FilesThatOthersMayWriteAreMissing) {
  const ObjectDirectory directory = MustOpen();
  ASSERT_TRUE(directory.Store(kKey, "compiled").ok());
  ASSERT_EQ(chmod(FileOf(kKey).c_str(), 0644), 0);
  EXPECT_EQ(directory.Load(kKey), "compiled");
  for (const mode_t mode : {0620u, 0602u, 0666u}) {
    ASSERT_EQ(chmod(FileOf(kKey).c_str(), mode), 0);
    EXPECT_EQ(directory.Load(kKey), std::nullopt) << std::oct << mode;
    EXPECT_FALSE(std::filesystem::exists(FileOf(kKey)));
    EXPECT_TRUE(directory.Store(kKey, "again").ok());
    EXPECT_EQ(directory.Load(kKey), "again");
  }
}

TEST_F(ObjectDirectoryTest, WhatIsNoFileIsMissing) {
  const ObjectDirectory directory = MustOpen();
  ASSERT_TRUE(directory.Store(kOther, "other").ok());
  ASSERT_EQ(symlink(FileOf(kOther).c_str(), FileOf(kKey).c_str()), 0);
  EXPECT_EQ(directory.Load(kKey), std::nullopt);
  std::filesystem::remove(FileOf(kKey));
  ASSERT_EQ(mkfifo(FileOf(kKey).c_str(), 0600), 0);
  EXPECT_EQ(directory.Load(kKey), std::nullopt) << "and is not waited for";
}

TEST_F(ObjectDirectoryTest, DirectoriesThatOthersMayWriteAreNotUsed) {
  const ObjectDirectory directory = MustOpen();
  ASSERT_TRUE(directory.Store(kKey, "compiled").ok());
  ASSERT_EQ(chmod(path_.c_str(), 0770), 0);
  EXPECT_EQ(directory.Load(kKey), std::nullopt);
  EXPECT_EQ(directory.Store(kKey, "compiled").code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Message(Open().status()), HasSubstr("`chmod go-w " + path_ + "`"));
  ASSERT_EQ(chmod(path_.c_str(), 0700), 0);
  EXPECT_EQ(directory.Load(kKey), "compiled");
  // Nor those that lead there.
  ASSERT_EQ(chmod(scratch_.path().c_str(), 0777), 0);
  EXPECT_EQ(Open().status().code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(chmod(scratch_.path().c_str(), 0700), 0);
}

// To make such, the test must run as root, and not in Bazel's sandbox.
TEST_F(ObjectDirectoryTest, FilesAndDirectoriesOfOthersAreNotUsed) {
  const ObjectDirectory directory = MustOpen();
  ASSERT_TRUE(directory.Store(kKey, "compiled").ok());
  constexpr uid_t kStranger = 12'345;
  if (chown(FileOf(kKey).c_str(), kStranger, kStranger) != 0) {
    GTEST_SKIP() << "only root can give files away";
  }
  EXPECT_EQ(directory.Load(kKey), std::nullopt);
  ASSERT_TRUE(directory.Store(kKey, "compiled").ok());
  EXPECT_EQ(directory.Load(kKey), "compiled");
  ASSERT_EQ(chown(path_.c_str(), kStranger, kStranger), 0);
  EXPECT_EQ(directory.Load(kKey), std::nullopt);
  EXPECT_THAT(Message(Open().status()), HasSubstr("belongs to user 12345"));
}

TEST_F(ObjectDirectoryTest, WhatWasNotUsedForLongestGoesFirst) {
  // Each takes a block of 4 KiB.
  const auto directory = Open(3 * 4096);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto age = [&](const ObjectKey& key, time_t seconds) {
    const std::array<timespec, 2> times{{{seconds, 0}, {seconds, 0}}};
    ASSERT_EQ(utimensat(AT_FDCWD, FileOf(key).c_str(), times.data(), 0), 0);
  };
  for (uint64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(directory->Store({0, i}, "compiled").ok());
    age({0, i}, static_cast<time_t>(1000 + i));
  }
  EXPECT_EQ(directory->Load({0, 1}), "compiled") << "used now, so it is the youngest";
  ASSERT_TRUE(directory->Store({0, 4}, "compiled").ok());
  EXPECT_TRUE(directory->Load({0, 1}).has_value());
  EXPECT_FALSE(directory->Load({0, 2}).has_value());
  EXPECT_TRUE(directory->Load({0, 3}).has_value());
  EXPECT_TRUE(directory->Load({0, 4}).has_value());
  // What a writer that was killed has left goes as well.
  const std::string left = path_ + "/left.new";
  std::ofstream(left) << "x";
  const std::array<timespec, 2> long_ago{};
  ASSERT_EQ(utimensat(AT_FDCWD, left.c_str(), long_ago.data(), 0), 0);
  ASSERT_TRUE(directory->Store({0, 5}, "compiled").ok());
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(directory->Store({0, 6}, std::string(4 * 4096, 'x')).ok());
  EXPECT_FALSE(directory->Load({0, 6}).has_value()) << "too large by itself";
  EXPECT_TRUE(directory->Load({0, 5}).has_value());
}

TEST_F(ObjectDirectoryTest, ReadersSeeWholeFilesWhateverIsWritten) {
  const ObjectDirectory first = MustOpen();
  ASSERT_TRUE(first.Store(kKey, std::string(1000, '9')).ok());
  const auto codes = RunAtOnce(4, [&](int number) {
    const auto directory = Open();
    if (!directory.ok()) return 1;
    for (int i = 0; i < 50; ++i) {
      const std::string own(1000 + static_cast<size_t>(number), static_cast<char>('0' + number));
      if (!directory->Store(kKey, own).ok()) return 2;
      const auto bytes = directory->Load(kKey);
      if (!bytes.has_value()) return 3;
      // All of one writer.
      if (bytes->find_first_not_of(bytes->front()) != std::string::npos) return 4;
      if (bytes->size() != 1000u + static_cast<size_t>(bytes->front() - '0')) return 5;
    }
    return 0;
  });
  EXPECT_THAT(codes, Each(0));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) files += entry.exists();
  EXPECT_EQ(files, 1u) << "nothing unfinished is left";
}

TEST_F(ObjectDirectoryTest, LocksExcludeEachOtherByKey) {
  const ObjectDirectory directory = MustOpen();
  auto lock = directory.Lock(kKey, Now());
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(MustOpen().Lock(kKey, Now()).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(directory.Lock(kOther, Now()).ok());
  int given_up[2];
  ASSERT_EQ(pipe(given_up), 0);
  ASSERT_EQ(write(given_up[1], "x", 1), 1);
  EXPECT_EQ(directory.Lock(kKey, {Long().deadline, given_up[0]}).status().code(),
            StatusCode::kAborted);
  close(given_up[0]);
  close(given_up[1]);
  { const ObjectLock gone = *std::move(lock); }
  EXPECT_TRUE(directory.Lock(kKey, Now()).ok());
}

TEST_F(ObjectDirectoryTest, LocksEndWithTheirProcess) {
  const ObjectDirectory directory = MustOpen();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    const auto lock = directory.Lock(kKey, Now());
    if (!lock.ok() || write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char text = 0;
  ASSERT_EQ(read(ready[0], &text, 1), 1);
  EXPECT_EQ(directory.Lock(kKey, Now()).status().code(), StatusCode::kDeadlineExceeded);
  kill(holder, SIGKILL);
  EXPECT_TRUE(directory.Lock(kKey, Long()).ok());
  EXPECT_EQ(waitpid(holder, nullptr, 0), holder);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace lockstep::worker
