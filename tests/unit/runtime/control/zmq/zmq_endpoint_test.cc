// Where channels listen and connect, and how long connections last.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "runtime/control/zmq/zmq_channel.h"
#include "tests/unit/runtime/control/zmq/messages.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A cluster whose workers are threads has them all in one context.
TEST(ZmqContextTest, MayHaveMoreSocketsThanUsual) {
  const auto most = [](const std::shared_ptr<ZmqContext>& context) {
    return zmq_ctx_get(context->handle(), ZMQ_MAX_SOCKETS);
  };
  const int usual = most(ZmqContext::Create());
  EXPECT_EQ(most(ZmqContext::CreateFor(8000)), 8000);
  EXPECT_EQ(most(ZmqContext::CreateFor(0)), usual);
}

TEST(ZmqListenTest, OnlyLoopbackMayBeBoundOverTcp) {
  for (const char* endpoint : {"tcp://*:*", "tcp://0.0.0.0:*", "tcp://[::]:*",
                               "tcp://10.1.2.3:4000", "tcp://example.com:80", "tcp://eth0:*"}) {
    const auto channel = ZmqListen(ZmqContext::Create(), endpoint);
    EXPECT_EQ(channel.status().code(), StatusCode::kPermissionDenied) << endpoint;
    EXPECT_THAT(lockstep::Message(channel.status()), HasSubstr("only loopback")) << endpoint;
  }
  EXPECT_TRUE(ZmqListen(ZmqContext::Create(), "tcp://127.0.0.1:*").ok());
  EXPECT_TRUE(ZmqListen(ZmqContext::Create(), "tcp://127.9.8.7:*").ok());
}

// Whatever else ZeroMQ was built with is not checked for who may reach it, so it may not be bound.
TEST(ZmqListenTest, OtherTransportsAreRefused) {
  for (const char* endpoint : {"udp://0.0.0.0:5555", "tipc://{5560,0,0}", "ws://0.0.0.0:80",
                               "vmci://*:*", "epgm://eth0;239.192.1.1:5555", "TCP://0.0.0.0:*"}) {
    EXPECT_EQ(ZmqListen(ZmqContext::Create(), endpoint).status().code(),
              StatusCode::kInvalidArgument)
        << endpoint;
  }
}

TEST(ZmqListenTest, BadEndpointsAreRefused) {
  for (const char* endpoint : {"", "nonsense", "tcp://127.0.0.1"}) {
    EXPECT_EQ(ZmqListen(ZmqContext::Create(), endpoint).status().code(),
              StatusCode::kInvalidArgument)
        << endpoint;
  }
  const std::string long_path = "ipc:///tmp/" + std::string(200, 'x');
  EXPECT_EQ(ZmqListen(ZmqContext::Create(), long_path).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ZmqListen(ZmqContext::Create(), "ipc:///no/such/directory/socket").status().code(),
            StatusCode::kNotFound);
}

TEST(ZmqListenTest, SocketFileGoesWithItsChannel) {
  const std::string endpoint = NewEndpoint("ipc");
  const std::string path = endpoint.substr(6);
  {
    auto channel = ZmqListen(ZmqContext::Create(), endpoint);
    ASSERT_TRUE(channel.ok()) << channel.status();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ZmqListenTest, SecondListenerOfASocketHarmsNobody) {
  const std::string endpoint = NewEndpoint("ipc");
  auto server = ZmqListen(ZmqContext::Create(), endpoint);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(ZmqListen(ZmqContext::Create(), endpoint).status().code(), StatusCode::kAlreadyExists);
  auto client = ZmqConnect(ZmqContext::Create(), endpoint);
  ASSERT_TRUE((*client)->Send({FrameOf("to the first")}).ok());
  PeerName from;
  EXPECT_EQ(TextOf(ReceiveFrom(**server, &from)[0]), "to the first");
  server->reset();
  auto next = ZmqListen(ZmqContext::Create(), endpoint);
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST(ZmqListenTest, SocketThatADeadListenerLeftIsReplaced) {
  const std::string endpoint = NewEndpoint("ipc");
  const std::string path = endpoint.substr(6);
  // What a killed process leaves: a socket that no process reads, and an unlocked lock.
  auto server = ZmqListen(ZmqContext::Create(), endpoint);
  ASSERT_TRUE(server.ok()) << server.status();
  std::filesystem::rename(path, path + ".kept");
  server->reset();
  std::filesystem::rename(path + ".kept", path);
  std::ofstream(path + ".lock") << "1\n";
  server = ZmqListen(ZmqContext::Create(), endpoint);
  ASSERT_TRUE(server.ok()) << server.status();
  auto client = ZmqConnect(ZmqContext::Create(), endpoint);
  ASSERT_TRUE((*client)->Send({FrameOf("hello")}).ok());
  PeerName from;
  EXPECT_EQ(TextOf(ReceiveFrom(**server, &from)[0]), "hello");
  server->reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".lock"));
}

TEST(ZmqConnectTest, BadEndpointsAreRefused) {
  for (const char* endpoint : {"", "nonsense", "tcp://127.0.0.1", "what://x:1"}) {
    EXPECT_EQ(ZmqConnect(ZmqContext::Create(), endpoint).status().code(),
              StatusCode::kInvalidArgument)
        << endpoint;
  }
}

TEST(ZmqConnectTest, ListenerMayComeLater) {
  for (const char* transport : {"inproc", "ipc"}) {
    auto context = ZmqContext::Create();
    const std::string endpoint = NewEndpoint(transport);
    auto client = ZmqConnect(context, endpoint);
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE((*client)->Send({FrameOf("early")}).ok());
    auto server = ZmqListen(context, endpoint);
    ASSERT_TRUE(server.ok()) << server.status();
    PeerName from;
    EXPECT_EQ(TextOf(ReceiveFrom(**server, &from)[0]), "early") << transport;
  }
}

TEST(ZmqConnectTest, LastWordsGoOutAfterTheChannelIsClosed) {
  auto context = ZmqContext::Create();
  auto server = ZmqListen(context, "tcp://127.0.0.1:*");
  ASSERT_TRUE(server.ok());
  {
    auto client = ZmqConnect(ZmqContext::Create(), (*server)->endpoint());
    ASSERT_TRUE(client.ok());
    ASSERT_TRUE((*client)->Send({FrameOf("goodbye")}).ok());
  }
  PeerName from;
  EXPECT_EQ(TextOf(ReceiveFrom(**server, &from)[0]), "goodbye");
}

// The port of a connection's end in this process, or of who is at its other end; 0: none of tcp.
template <typename GetName>
int PortOf(int fd, GetName get_name) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (get_name(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
             : 0;
}

int OptionOf(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  EXPECT_EQ(getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

// A host that vanishes ends no connection: one on which nothing is said would stay for ever, and
// one on which something was said for as long as the kernel says it again.
TEST(ZmqConnectTest, BothEndsOfAConnectionNoticeWhenTheOtherIsNotThereAnyMore) {
  auto context = ZmqContext::Create();
  auto server = ZmqListen(context, "tcp://127.0.0.1:*");
  ASSERT_TRUE(server.ok());
  const std::string& endpoint = (*server)->endpoint();
  const int port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
  auto client = ZmqConnect(context, endpoint);
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE((*client)->Send({FrameOf("hello")}).ok());
  PeerName from;
  ASSERT_EQ(TextOf(ReceiveFrom(**server, &from)[0]), "hello");

  int ends = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    const int theirs = PortOf(fd, getpeername);
    if (theirs == 0 || (theirs != port && PortOf(fd, getsockname) != port)) continue;
    ++ends;
    EXPECT_EQ(OptionOf(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_LE(OptionOf(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                  OptionOf(fd, IPPROTO_TCP, TCP_KEEPCNT) * OptionOf(fd, IPPROTO_TCP, TCP_KEEPINTVL),
              120);
    EXPECT_EQ(OptionOf(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 120'000);
  }
  EXPECT_EQ(ends, 2);
}

}  // namespace
}  // namespace lockstep::control
