#include "runtime/client/bulk_route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

// A port of a loopback address that listens.
class Listener {
 public:
  // `port` 0: any.
  explicit Listener(uint32_t address, uint16_t port = 0, int backlog = 100)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int yes = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in own = {};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(address);
    own.sin_port = htons(port);
    socklen_t size = sizeof own;
    if (bind(fd_, reinterpret_cast<sockaddr*>(&own), size) != 0) return;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &size), 0);
    port_ = ntohs(own.sin_port);
    EXPECT_EQ(listen(fd_, backlog), 0);
  }
  ~Listener() { close(fd_); }
  // 0: it is taken.
  uint16_t port() const { return port_; }

 private:
  const int fd_;
  uint16_t port_ = 0;
};

// Two addresses that listen at the same port.
struct TwoListeners {
  std::unique_ptr<Listener> first;   // of 127.0.0.1
  std::unique_ptr<Listener> second;  // of 127.0.0.2
};
TwoListeners ListenTwice(int first_backlog = 100) {
  TwoListeners two;
  // Another program may have one of the two ports.
  for (int tries = 0; tries < 100; ++tries) {
    two.second = std::make_unique<Listener>(INADDR_LOOPBACK + 1);
    two.first = std::make_unique<Listener>(INADDR_LOOPBACK, two.second->port(), first_backlog);
    if (two.first->port() != 0) return two;
  }
  ADD_FAILURE() << "no port is free at both addresses";
  return two;
}

// Connects to a port of 127.0.0.1, or tries to.
class Caller {
 public:
  explicit Caller(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    (void)connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  ~Caller() { close(fd_); }

 private:
  const int fd_;
};

std::string At(const std::string& host, uint16_t port) {
  return "tcp://" + host + ":" + std::to_string(port);
}

TEST(WayTest, BesideTheControllerIsTheOtherWay) {
  EXPECT_THAT(BulkRoutes("tcp://172.18.0.3:7404", "tcp://localhost:7400"),
              ElementsAre("tcp://172.18.0.3:7404", "tcp://localhost:7404"));
  EXPECT_THAT(BulkRoutes("tcp://[fd00::3]:7404", "tcp://[fd00::1]:7400"),
              ElementsAre("tcp://[fd00::3]:7404", "tcp://[fd00::1]:7404"));
}

TEST(WayTest, ThereIsOneWayToTheSameHostAndOnAHost) {
  EXPECT_THAT(BulkRoutes("tcp://10.1.0.1:7404", "tcp://10.1.0.1:7400"),
              ElementsAre("tcp://10.1.0.1:7404"));
  EXPECT_THAT(BulkRoutes("ipc:///run/bulk", "tcp://10.1.0.1:7400"), ElementsAre("ipc:///run/bulk"));
  EXPECT_THAT(BulkRoutes("tcp://10.1.0.1:7404", "ipc:///run/clients"),
              ElementsAre("tcp://10.1.0.1:7404"));
}

TEST(WayTest, OneWayIsNotTried) {
  EXPECT_EQ(ChooseBulkRoute({"tcp://no-such-host.invalid:1"}, 60s), "tcp://no-such-host.invalid:1");
}

TEST(WayTest, TheFirstThatAnswersIsTaken) {
  const Listener second(INADDR_LOOPBACK + 1);
  const std::string refused = At("127.0.0.1", second.port());
  const std::string answers = At("127.0.0.2", second.port());
  EXPECT_EQ(ChooseBulkRoute({refused, answers}, 20s), answers);
  EXPECT_EQ(ChooseBulkRoute({answers, refused}, 20s), answers);
}

TEST(WayTest, OfTwoThatAnswerTheEarlierIsTaken) {
  const TwoListeners two = ListenTwice();
  const uint16_t port = two.first->port();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(ChooseBulkRoute({At("127.0.0.1", port), At("127.0.0.2", port)}, 20s),
              At("127.0.0.1", port));
  }
}

TEST(WayTest, WhenNobodyAnswersItIsTheFirst) {
  uint16_t port = 0;
  { port = Listener(INADDR_LOOPBACK).port(); }
  EXPECT_EQ(ChooseBulkRoute({At("127.0.0.1", port), At("127.0.0.2", port)}, 20s),
            At("127.0.0.1", port));
}

TEST(WayTest, ASilentOneHoldsTheOtherUpForAMoment) {
  // Who listens first takes no more connections: packets of further ones are dropped.
  const TwoListeners two = ListenTwice(/*first_backlog=*/0);
  const uint16_t port = two.first->port();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 4; ++i) callers.push_back(std::make_unique<Caller>(port));
  const Deadline patience = Deadline::After(20s);
  EXPECT_EQ(ChooseBulkRoute({At("127.0.0.1", port), At("127.0.0.2", port)}, 20s),
            At("127.0.0.2", port));
  EXPECT_FALSE(patience.Expired());
}

}  // namespace
}  // namespace lockstep::client
