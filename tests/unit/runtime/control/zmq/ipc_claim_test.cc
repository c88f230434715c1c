#include "runtime/control/zmq/ipc_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class IpcClaimTest : public testing::Test {
 protected:
  void SetUp() override {
    // Sockets' paths are short: the test's own directory may be too long.
    char name[] = "/tmp/ipc_claim_test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    path_ = directory_ + "/socket";
    endpoint_ = "ipc://" + path_;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // What binding does: replaces what is at the path.
  void BindSocket() {
    unlink(path_.c_str());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(fd);
  }
  bool IsEmpty() const { return std::filesystem::is_empty(directory_); }

  std::string directory_, path_, endpoint_;
};

TEST_F(IpcClaimTest, PathHasOneOwnerWhoIsNamed) {
  auto first = IpcClaim::Take(endpoint_);
  ASSERT_TRUE(first.ok()) << first.status();
  const Status second = IpcClaim::Take(endpoint_).status();
  EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(second), AllOf(HasSubstr(endpoint_), HasSubstr(std::to_string(getpid()))));
}

TEST_F(IpcClaimTest, NothingStaysBehind) {
  {
    auto claim = IpcClaim::Take(endpoint_);
    ASSERT_TRUE(claim.ok()) << claim.status();
    BindSocket();
    claim->Bound();
    const IpcClaim moved = std::move(*claim);
    EXPECT_FALSE(IsEmpty());
  }
  EXPECT_TRUE(IsEmpty());
  EXPECT_TRUE(IpcClaim::Take(endpoint_).ok());
}

TEST_F(IpcClaimTest, FileOfSomebodyElseInTheSocketsPlaceStays) {
  {
    auto claim = IpcClaim::Take(endpoint_);
    ASSERT_TRUE(claim.ok()) << claim.status();
    BindSocket();
    claim->Bound();
    // A program that does not know of claims. Ours is kept aside, so that its inode is not used
    // again.
    std::filesystem::rename(path_, path_ + ".ours");
    BindSocket();
  }
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(IpcClaimTest, PathOfAKilledOwnerIsFree) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto claim = IpcClaim::Take(endpoint_);
    BindSocket();
    const char ok = claim.ok() ? 'y' : 'n';
    [[maybe_unused]] const ssize_t written = write(ready[1], &ok, 1);
    while (true) pause();
  }
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  ASSERT_EQ(ok, 'y');
  EXPECT_THAT(Message(IpcClaim::Take(endpoint_).status()), HasSubstr(std::to_string(owner)));
  ASSERT_EQ(kill(owner, SIGKILL), 0);
  ASSERT_EQ(waitpid(owner, nullptr, 0), owner);
  const auto claim = IpcClaim::Take(endpoint_);
  EXPECT_TRUE(claim.ok()) << claim.status();
  close(ready[0]);
  close(ready[1]);
}

TEST_F(IpcClaimTest, FileThatIsNoSocketIsNotSacrificed) {
  std::ofstream(path_) << "precious";
  const Status status = IpcClaim::Take(endpoint_).status();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(status), HasSubstr("no socket"));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(IpcClaimTest, EndpointsWithoutAPathNeedNoClaim) {
  for (const char* endpoint : {"inproc://a", "tcp://127.0.0.1:1", "ipc://*", "ipc://@abstract"}) {
    const auto first = IpcClaim::Take(endpoint);
    const auto second = IpcClaim::Take(endpoint);
    EXPECT_TRUE(first.ok() && second.ok()) << endpoint;
  }
}

TEST_F(IpcClaimTest, PathThatCannotBeIsAnError) {
  EXPECT_EQ(IpcClaim::Take("ipc:///no/such/directory/socket").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(IpcClaim::Take("ipc:///tmp/" + std::string(300, 'x')).status().code(),
            StatusCode::kInvalidArgument);
}

// Owners come and go while others try: never are there two at once.
TEST_F(IpcClaimTest, RemovedLocksDoNotLetTwoIn) {
  std::atomic<int> owners{0};
  std::atomic<bool> two{false};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 2000; ++round) {
        const auto claim = IpcClaim::Take(endpoint_);
        if (!claim.ok()) continue;
        if (owners.fetch_add(1) != 0) two = true;
        ++taken;
        owners.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(two);
  EXPECT_GT(taken, 0);
  EXPECT_TRUE(IsEmpty());
}

}  // namespace
}  // namespace lockstep::control
