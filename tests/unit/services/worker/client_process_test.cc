#include "services/worker/client_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "tests/unit/services/worker/child.h"

namespace lockstep::worker {
namespace {

TEST(ClientProcessTest, EndsWithItsProcess) {
  Child child;
  const auto client = ClientProcess::Watch(child.pid());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE(client->HasEnded());
  child.End();
  EXPECT_TRUE(client->HasEnded());
}

TEST(ClientProcessTest, ThisProcessLives) {
  const auto client = ClientProcess::Watch(getpid());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_FALSE(client->HasEnded());
}

// kill() takes these for groups of processes, which live for ever.
TEST(ClientProcessTest, NumbersThatNoProcessHasAreRefused) {
  for (int pid : {0, -1, -getpid()}) {
    EXPECT_EQ(ClientProcess::Watch(pid).status().code(), StatusCode::kInvalidArgument) << pid;
  }
}

TEST(ClientProcessTest, ProcessThatHasEndedIsNotFound) {
  Child child;
  const pid_t pid = child.pid();
  child.End();
  EXPECT_EQ(ClientProcess::Watch(pid).status().code(), StatusCode::kNotFound);
}

TEST(ClientProcessTest, MovedOneStillWatches) {
  Child child;
  auto client = ClientProcess::Watch(child.pid());
  ASSERT_TRUE(client.ok()) << client.status();
  const ClientProcess moved = *std::move(client);
  EXPECT_FALSE(moved.HasEnded());
  child.End();
  EXPECT_TRUE(moved.HasEnded());
}

}  // namespace
}  // namespace lockstep::worker
