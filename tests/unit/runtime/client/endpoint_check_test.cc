#include "runtime/client/endpoint_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/client/controller_query.h"
#include "tests/support/fake_channel.h"
#include "tests/support/files.h"

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
