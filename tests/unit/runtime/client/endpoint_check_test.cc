#include "runtime/client/endpoint_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/host_identity.h"
#include "runtime/client/controller_query.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/support/fake_channel.h"
#include "tests/support/files.h"
#include "tests/support/patience.h"

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// No check may take so long.
Status Check(const std::string& endpoint) {
  return CheckEndpoint(endpoint, Deadline::After(support::kLong));
}

// A socket file, on which a process listens or not.
int MakeSocket(const std::string& path, bool listens) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  if (listens) {
    EXPECT_EQ(listen(fd, 1), 0);
  }
  return fd;
}

TEST(EndpointCheckTest, APathWithoutASocketIsNamed) {
  const Status status = Check("ipc:///no/such/client.sock");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("there is no socket /no/such/client.sock"));
  const support::ScratchDirectory folder;
  EXPECT_THAT(std::string(Message(Check("ipc://" + folder.path()))), HasSubstr("is no socket"));
}

TEST(EndpointCheckTest, ASocketThatADeadProcessLeftIsNamed) {
  const support::ScratchDirectory folder;
  close(MakeSocket(folder.File("dead.sock"), true));
  EXPECT_THAT(std::string(Message(Check("ipc://" + folder.File("dead.sock")))),
              HasSubstr("no process listens at the socket " + folder.File("dead.sock")));
  const int alive = MakeSocket(folder.File("alive.sock"), true);
  EXPECT_EQ(Check("ipc://" + folder.File("alive.sock")), OkStatus());
  close(alive);
}

TEST(EndpointCheckTest, ANameThatCannotBeResolvedIsNamed) {
  // RFC 2606: it never exists.
  const Status status = Check("tcp://no-such-host.invalid:7000");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("the host name \"no-such-host.invalid\" cannot be resolved: "));
  // These are resolved, whatever listens there.
  EXPECT_NE(Check("tcp://127.0.0.1:7000").code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Check("tcp://[::1]:7000").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Check("inproc://anything"), OkStatus());
  EXPECT_EQ(Check("ipc://@abstract"), OkStatus());
}

// A listener on a port of this host that says nothing.
int MakeListener() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(fd, 1), 0);
  return fd;
}

std::string EndpointOf(int listener) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  return "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// Answers one request as the port does where metrics are read.
class HttpServer {
 public:
  HttpServer() : fd_(MakeListener()), endpoint_(EndpointOf(fd_)) {
    thread_ = std::thread([this] {
      const int client = accept(fd_, nullptr, nullptr);
      if (client < 0) return;
      std::array<char, 100> request{};
      const std::string_view answer = "HTTP/1.1 404 Not Found\r\n\r\n";
      EXPECT_GT(recv(client, request.data(), request.size(), 0), 0);
      EXPECT_GT(send(client, answer.data(), answer.size(), MSG_NOSIGNAL), 0);
      close(client);
    });
  }
  ~HttpServer() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  const std::string& endpoint() const { return endpoint_; }

 private:
  const int fd_;
  const std::string endpoint_;
  std::thread thread_;
};

TEST(EndpointCheckTest, APortAtWhichMetricsAreReadIsNamed) {
  const HttpServer server;
  const Status status =
      CheckEndpoint(server.endpoint(), Deadline::After(support::kLong), -1, support::kLong);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("an HTTP server answers at " + server.endpoint()));
}

TEST(EndpointCheckTest, AListenerOfZeroMqIsNotBlamed) {
  const auto context = control::ZmqContext::Create();
  const auto server = control::ZmqListen(context, "tcp://127.0.0.1:*");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(Check((*server)->endpoint()), OkStatus());
}

// A port of this host at which nothing listens, until the object ends: it is bound, so that no
// other program gets it.
class RefusingPort {
 public:
  RefusingPort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = std::to_string(ntohs(address.sin_port));
  }
  ~RefusingPort() { close(fd_); }
  std::string At(const std::string& host) const { return "tcp://" + host + ":" + port_; }

 private:
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string port_;
};

// The whole patience went by, half a minute.
TEST(EndpointCheckTest, APortAtWhichNothingListensIsNamed) {
  const RefusingPort port;
  for (const char* const host : {"127.0.0.1", "localhost"}) {
    const Status status = Check(port.At(host));
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(Message(status)),
                HasSubstr("nothing listens at " + port.At(host).substr(6) + "; is it running?"));
    EXPECT_FALSE(MayBeStarting(port.At(host), status));
  }
  support::FakeChannel channel;
  const auto begin = Deadline::Clock::now();
  EXPECT_EQ(AwaitFirstAnswer(channel, port.At("127.0.0.1"), 60s).status().code(),
            StatusCode::kUnavailable);
  EXPECT_LT(Deadline::Clock::now() - begin, 10s);
}

TEST(EndpointCheckTest, AControllerMayBeStartingOnAnotherHostOnly) {
  const Status refused = Unavailable("nothing listens");
  EXPECT_TRUE(MayBeStarting("tcp://node7:7400", refused));
  EXPECT_FALSE(MayBeStarting("tcp://node7:7400", InvalidArgument("no such name")));
  EXPECT_FALSE(MayBeStarting("tcp://[::1]:7400", refused));
  EXPECT_FALSE(MayBeStarting("tcp://0.0.0.0:7400", refused));
  EXPECT_FALSE(MayBeStarting("tcp://" + ThisHost().name + ":7400", refused)) << "it is this host";
  EXPECT_FALSE(MayBeStarting("ipc:///no/such.sock", refused));
}

// It took 1.3 seconds, whatever its caller had left, and no ^C ended it.
TEST(EndpointCheckTest, ACheckEndsWithItsCaller) {
  const int silent = MakeListener();
  const std::string endpoint = EndpointOf(silent);
  const auto begin = Deadline::Clock::now();
  EXPECT_EQ(CheckEndpoint(endpoint, Deadline::After(0s), -1, support::kLong), OkStatus());
  int cancel[2];
  ASSERT_EQ(pipe(cancel), 0);
  ASSERT_EQ(write(cancel[1], "x", 1), 1);
  EXPECT_EQ(
      CheckEndpoint(endpoint, Deadline::After(support::kLong), cancel[0], support::kLong).code(),
      StatusCode::kCancelled);
  EXPECT_LT(Deadline::Clock::now() - begin, 5s);
  for (const int fd : {silent, cancel[0], cancel[1]}) close(fd);
}

// It took the whole patience, and only asked whether the controller runs.
TEST(EndpointCheckTest, AnEndpointThatCannotAnswerEndsTheWaitWithinASecond) {
  support::FakeChannel channel;
  const auto begin = Deadline::Clock::now();
  const Status status =
      AwaitFirstAnswer(channel, "ipc:///no/such/client.sock", std::chrono::seconds(30)).status();
  EXPECT_LT(Deadline::Clock::now() - begin, 5s);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("/no/such/client.sock"));
}

}  // namespace
}  // namespace lockstep::client
