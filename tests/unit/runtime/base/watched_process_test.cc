#include "runtime/base/watched_process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/support/child.h"

namespace lockstep {
namespace {

using support::Child;

TEST(WatchedProcessTest, EndsWithItsProcess) {
  Child child;
  const auto process = WatchedProcess::Watch(child.pid());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_FALSE(process->HasEnded());
  child.End();
  EXPECT_TRUE(process->HasEnded());
}

TEST(WatchedProcessTest, ThisProcessLives) {
  const auto process = WatchedProcess::Watch(getpid());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_FALSE(process->HasEnded());
}

// kill() takes these for groups of processes, which live for ever.
TEST(WatchedProcessTest, NumbersThatNoProcessHasAreRefused) {
  for (int pid : {0, -1, -getpid()}) {
    EXPECT_EQ(WatchedProcess::Watch(pid).status().code(), StatusCode::kInvalidArgument) << pid;
  }
}

TEST(WatchedProcessTest, ProcessThatHasEndedIsNotFound) {
  Child child;
  const pid_t pid = child.pid();
  child.End();
  EXPECT_EQ(WatchedProcess::Watch(pid).status().code(), StatusCode::kNotFound);
}

TEST(WatchedProcessTest, MovedOneStillWatches) {
  Child child;
  auto process = WatchedProcess::Watch(child.pid());
  ASSERT_TRUE(process.ok()) << process.status();
  const WatchedProcess moved = *std::move(process);
  EXPECT_FALSE(moved.HasEnded());
  child.End();
  EXPECT_TRUE(moved.HasEnded());
}

TEST(WatchedProcessTest, FilesThatItMapsAreSeenWhetherTheyHaveANameOrNot) {
  const int nameless = memfd_create("maps-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(nameless, 4096), 0);
  void* const memory = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, nameless, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Child child;  // maps what its parent does
  auto process = WatchedProcess::Watch(child.pid());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(*process->Maps("memfd:maps-test"), true);
  EXPECT_EQ(*process->Maps("maps-test"), false) << "the end of a name is another name";
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename();
  EXPECT_EQ(*process->Maps(program), true) << "its program, which has one";
  munmap(memory, 4096);
  close(nameless);
  EXPECT_EQ(*process->Maps("memfd:maps-test"), true);
  EXPECT_EQ(*WatchedProcess::Watch(getpid())->Maps("memfd:maps-test"), false);
  child.End();
  EXPECT_EQ(process->Maps("memfd:maps-test").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep
