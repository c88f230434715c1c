#include "services/controller/world/reach_back.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <string>
#include <vector>

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A port of 127.0.0.1 that listens, or is taken and does not.
class Port {
 public:
  Port() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address_;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address_), size), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &size), 0);
  }
  ~Port() { close(fd_); }
  void Listen(int backlog = 4) const { EXPECT_EQ(listen(fd_, backlog), 0); }
  const sockaddr_in& address() const { return address_; }
  std::string endpoint(const std::string& host = "127.0.0.1") const {
    return "tcp://" + host + ":" + std::to_string(ntohs(address_.sin_port));
  }

 private:
  const int fd_;
  sockaddr_in address_ = {};
};

// Connects, or tries to.
class Caller {
 public:
  explicit Caller(const Port& port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    (void)connect(fd_, reinterpret_cast<const sockaddr*>(&port.address()), sizeof(sockaddr_in));
  }
  Caller(const Caller& other) : fd_(dup(other.fd_)) {}
  ~Caller() { close(fd_); }

 private:
  const int fd_;
};

class ReachBackTest : public testing::Test {
 protected:
  // Asks until there is another result than the last one.
  Status Try(const std::string& endpoint) {
    (void)reach_back_.Ask(endpoint);
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [this] { return results_ > 0; }));
    results_ = 0;
    lock.unlock();
    const std::optional<Status> result = reach_back_.Ask(endpoint);
    EXPECT_TRUE(result.has_value());
    return result.value_or(OkStatus());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int results_ = 0;
  ReachBack reach_back_{[this] {
                          std::lock_guard lock(mutex_);
                          ++results_;
                          changed_.notify_all();
                        },
                        200ms};
};

TEST_F(ReachBackTest, WhoListensIsReached) {
  Port port;
  port.Listen();
  EXPECT_EQ(Try(port.endpoint()), OkStatus());
  // Also by a name that stands for several addresses, of which one listens.
  EXPECT_EQ(Try(port.endpoint("localhost")), OkStatus());
}

TEST_F(ReachBackTest, WhoDoesNotIsNamedAndTriedAgain) {
  Port port;
  const Status status = Try(port.endpoint());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr(port.endpoint()));
  EXPECT_THAT(Message(status), HasSubstr("refused"));
  port.Listen();
  Status later = status;
  for (int i = 0; i < 100 && !later.ok(); ++i) later = Try(port.endpoint());
  EXPECT_EQ(later, OkStatus());
}

TEST_F(ReachBackTest, OneResultIsForOneWorker) {
  Port port;
  port.Listen();
  EXPECT_EQ(Try(port.endpoint()), OkStatus());
  EXPECT_EQ(reach_back_.Ask(port.endpoint()), std::nullopt);
}

TEST_F(ReachBackTest, SilenceIsGivenUpAndHoldsNobodyUp) {
  // Its queue is full: the kernel drops what else wants to connect.
  Port full;
  full.Listen(0);
  const std::vector<Caller> callers = {Caller(full), Caller(full), Caller(full)};
  EXPECT_EQ(reach_back_.Ask(full.endpoint()), std::nullopt);
  Port port;
  port.Listen();
  EXPECT_EQ(reach_back_.Ask(port.endpoint()), std::nullopt);
  const auto begin = Deadline::Clock::now();
  std::optional<Status> silent;
  std::optional<Status> reached;
  while (Deadline::Clock::now() - begin < 20s && !(silent.has_value() && reached.has_value())) {
    if (!silent.has_value()) silent = reach_back_.Ask(full.endpoint());
    if (!reached.has_value()) reached = reach_back_.Ask(port.endpoint());
  }
  ASSERT_TRUE(silent.has_value() && reached.has_value());
  EXPECT_EQ(*reached, OkStatus());
  EXPECT_EQ(silent->code(), StatusCode::kUnavailable) << *silent;
  EXPECT_THAT(Message(*silent), HasSubstr("timed out"));
}

TEST_F(ReachBackTest, ANameThatNobodyHasIsSaidToBeNone) {
  const Status status = Try("tcp://nobody.invalid:7000");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("tcp://nobody.invalid:7000"));
}

TEST_F(ReachBackTest, WhatIsNoPortIsNotTried) {
  EXPECT_EQ(reach_back_.Ask("ipc:///tmp/worker-0"), OkStatus());
  EXPECT_EQ(reach_back_.Ask("inproc://worker-0"), OkStatus());
  EXPECT_EQ(reach_back_.Ask(""), OkStatus());
}

}  // namespace
}  // namespace lockstep::controller
