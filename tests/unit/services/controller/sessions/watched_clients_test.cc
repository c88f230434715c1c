#include "services/controller/sessions/watched_clients.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/host_identity.h"

namespace lockstep::controller {
namespace {

// A process that does nothing.
class Child {
 public:
  Child() {
    // Not by fork(), which copies what a sanitized program has mapped: 80 ms for each.
    std::string name = "sleep";
    std::string duration = "infinity";
    char* const arguments[] = {name.data(), duration.data(), nullptr};
    EXPECT_EQ(posix_spawnp(&pid_, name.c_str(), nullptr, nullptr, arguments, environ), 0);
  }
  ~Child() {
    if (pid_ > 0) End();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  // Returns when it has ended, whether its parent has been told or not.
  void End(bool reap = true) {
    ASSERT_EQ(kill(pid_, SIGKILL), 0);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | (reap ? 0 : WNOWAIT)), 0);
    if (reap) pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

TEST(WatchedClientsTest, EndIsSeenAlsoOfAProcessThatNoneHasWaitedFor) {
  Child child;
  WatchedClients clients;
  const auto process = clients.Watch(ThisHost().id, child.pid());
  ASSERT_NE(process, nullptr);
  EXPECT_FALSE(process->HasEnded());
  child.End(/*reap=*/false);
  EXPECT_TRUE(process->HasEnded());
  child.End();
  EXPECT_TRUE(process->HasEnded());
}

TEST(WatchedClientsTest, SessionsOfOneProcessShareADescriptor) {
  Child child;
  WatchedClients clients;
  const auto one = clients.Watch(ThisHost().id, child.pid());
  EXPECT_EQ(clients.Watch(ThisHost().id, child.pid()), one);
}

TEST(WatchedClientsTest, WhatIsNotOfThisHostOrIsThisProcessIsNotWatched) {
  Child child;
  WatchedClients clients;
  EXPECT_EQ(clients.Watch("another host", child.pid()), nullptr);
  EXPECT_EQ(clients.Watch("", child.pid()), nullptr);
  EXPECT_EQ(clients.Watch(ThisHost().id, getpid()), nullptr);
  EXPECT_EQ(clients.Watch(ThisHost().id, 0), nullptr);
  EXPECT_EQ(clients.Watch(ThisHost().id, -1), nullptr);
}

TEST(WatchedClientsTest, ProcessThatHasEndedBeforeIsKnownToHave) {
  Child child;
  const pid_t pid = child.pid();
  child.End();
  WatchedClients clients;
  const auto process = clients.Watch(ThisHost().id, pid);
  ASSERT_NE(process, nullptr);
  EXPECT_TRUE(process->HasEnded());
}

TEST(WatchedClientsTest, DescriptorsAreBounded) {
  std::vector<std::unique_ptr<Child>> children;
  std::vector<std::shared_ptr<const ClientProcess>> held;
  WatchedClients clients;
  for (size_t i = 0; i < WatchedClients::kMost; ++i) {
    children.push_back(std::make_unique<Child>());
    held.push_back(clients.Watch(ThisHost().id, children.back()->pid()));
    ASSERT_NE(held.back(), nullptr);
  }
  Child one_more;
  EXPECT_EQ(clients.Watch(ThisHost().id, one_more.pid()), nullptr);
  held.pop_back();
  EXPECT_NE(clients.Watch(ThisHost().id, one_more.pid()), nullptr);
}

}  // namespace
}  // namespace lockstep::controller
