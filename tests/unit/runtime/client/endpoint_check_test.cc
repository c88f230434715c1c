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
#include "runtime/client/controller_query.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/support/fake_channel.h"
#include "tests/support/files.h"
#include "tests/support/patience.h"

namespace lockstep::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

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
  const Status status = CheckEndpoint("ipc:///no/such/client.sock");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("there is no socket /no/such/client.sock"));
  const support::ScratchDirectory folder;
  EXPECT_THAT(std::string(Message(CheckEndpoint("ipc://" + folder.path()))),
              HasSubstr("is no socket"));
}

TEST(EndpointCheckTest, ASocketThatADeadProcessLeftIsNamed) {
  const support::ScratchDirectory folder;
  close(MakeSocket(folder.File("dead.sock"), true));
  EXPECT_THAT(std::string(Message(CheckEndpoint("ipc://" + folder.File("dead.sock")))),
              HasSubstr("no process listens at the socket " + folder.File("dead.sock")));
  const int alive = MakeSocket(folder.File("alive.sock"), true);
  EXPECT_EQ(CheckEndpoint("ipc://" + folder.File("alive.sock")), OkStatus());
  close(alive);
}

TEST(EndpointCheckTest, ANameThatCannotBeResolvedIsNamed) {
  // RFC 2606: it never exists.
  const Status status = CheckEndpoint("tcp://no-such-host.invalid:7000");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("the host name \"no-such-host.invalid\" cannot be resolved: "));
  EXPECT_EQ(CheckEndpoint("tcp://127.0.0.1:7000"), OkStatus());
  EXPECT_EQ(CheckEndpoint("tcp://[::1]:7000"), OkStatus());
  EXPECT_EQ(CheckEndpoint("inproc://anything"), OkStatus());
  EXPECT_EQ(CheckEndpoint("ipc://@abstract"), OkStatus());
}

// Answers one request as the port does where metrics are read.
class HttpServer {
 public:
  HttpServer() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    endpoint_ = "tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
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
  const int fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string endpoint_;
  std::thread thread_;
};

TEST(EndpointCheckTest, APortAtWhichMetricsAreReadIsNamed) {
  const HttpServer server;
  const Status status = CheckEndpoint(server.endpoint(), support::kLong);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)),
              HasSubstr("an HTTP server answers at " + server.endpoint()));
}

TEST(EndpointCheckTest, AListenerOfZeroMqIsNotBlamed) {
  const auto context = control::ZmqContext::Create();
  const auto server = control::ZmqListen(context, "tcp://127.0.0.1:*");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(CheckEndpoint((*server)->endpoint()), OkStatus());
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
