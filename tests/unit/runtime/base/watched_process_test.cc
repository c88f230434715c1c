#include "runtime/base/watched_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "runtime/base/shared_segment.h"
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

// What it maps.
TEST(WatchedProcessTest, FilesThatItMapsAreSeenWhetherTheyHaveANameOrNot) {
  const std::string name = "lockstep-test-maps-" + std::to_string(getpid());
  auto segment = SharedSegment::Create(name, 1 << 20);
  ASSERT_TRUE(segment.ok()) << segment.status();
  Child child;  // has what its parent has
  auto process = WatchedProcess::Watch(child.pid());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(*process->Maps(name), true);
  EXPECT_EQ(*process->Maps(name.substr(1)), false) << "the end of a name is another name";
  segment->reset();
  EXPECT_EQ(*process->Maps(name), true) << "nobody can find it, but it is mapped";
  EXPECT_EQ(*WatchedProcess::Watch(getpid())->Maps(name), false);
  child.End();
  EXPECT_EQ(process->Maps(name).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace lockstep
