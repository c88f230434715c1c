// Messages over channels: whole, in order, to whom they are for, within limits.
#include "runtime/control/zmq/zmq_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zmq.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/runtime/control/zmq/messages.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class ZmqChannelTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto listening = ZmqListen(context_, NewEndpoint(GetParam()));
    ASSERT_TRUE(listening.ok()) << listening.status();
    server_ = std::move(*listening);
  }
  std::unique_ptr<ClientChannel> Connect() {
    auto client = ZmqConnect(context_, server_->endpoint());
    EXPECT_TRUE(client.ok()) << client.status();
    return std::move(*client);
  }
  // The name under which the server knows `client`.
  PeerName Greet(ClientChannel& client) {
    EXPECT_TRUE(client.Send({FrameOf("hello")}).ok());
    PeerName name;
    EXPECT_EQ(TextOf(ReceiveFrom(*server_, &name)[0]), "hello");
    return name;
  }

  std::shared_ptr<ZmqContext> context_ = ZmqContext::Create();
  std::unique_ptr<ServerChannel> server_;
};

TEST_P(ZmqChannelTest, MessagesArriveWholeBothWays) {
  auto client = Connect();
  ASSERT_TRUE(client->Send({FrameOf("head"), FrameOf(""), FrameOf("tail")}).ok());
  PeerName peer;
  const Message request = ReceiveFrom(*server_, &peer);
  ASSERT_EQ(request.size(), 3u);
  EXPECT_EQ(TextOf(request[0]), "head");
  EXPECT_EQ(TextOf(request[1]), "");
  EXPECT_EQ(TextOf(request[2]), "tail");
  ASSERT_TRUE(server_->Send({&peer, 1}, {FrameOf("back"), FrameOf("again")}).ok());
  const Message answer = ReceiveFrom(*client);
  ASSERT_EQ(answer.size(), 2u);
  EXPECT_EQ(TextOf(answer[0]), "back");
  EXPECT_EQ(TextOf(answer[1]), "again");
}

TEST_P(ZmqChannelTest, WhereAMessageCameFromIsKnown) {
  EXPECT_EQ(server_->SenderAddress(), "");
  auto client = Connect();
  Greet(*client);
  const std::string us =
      "process " + std::to_string(getpid()) + " of user " + std::to_string(getuid());
  EXPECT_EQ(server_->SenderAddress(), GetParam() == "tcp"   ? "127.0.0.1"
                                      : GetParam() == "ipc" ? us
                                                            : "");
}

TEST_P(ZmqChannelTest, NothingToReceiveIsNoInput) {
  auto client = Connect();
  EXPECT_FALSE(client->HasInput());
  EXPECT_FALSE(server_->HasInput());
  Message message;
  PeerName from;
  EXPECT_FALSE(client->Receive(&message));
  EXPECT_FALSE(server_->Receive(&from, &message));
}

TEST_P(ZmqChannelTest, MessagesOfOnePeerKeepTheirOrder) {
  constexpr int kMessages = 5000;
  auto client = Connect();
  std::thread sender([&] {
    for (int i = 0; i < kMessages; ++i) {
      // Small ones are copied and large ones shared: both in one order.
      const std::string text = std::to_string(i) + std::string(i % 7 == 0 ? 2000 : 0, ' ');
      ASSERT_TRUE(client->Send({FrameOf(text)}).ok());
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    PeerName from;
    const Message message = ReceiveFrom(*server_, &from);
    ASSERT_EQ(message.size(), 1u);
    ASSERT_EQ(std::stoi(TextOf(message[0])), i);
  }
  sender.join();
}

TEST_P(ZmqChannelTest, OneFrameFansOutToAllPeersAndIsLetGo) {
  constexpr int kPeers = 5;
  std::vector<std::unique_ptr<ClientChannel>> clients;
  std::vector<PeerName> peers;
  for (int i = 0; i < kPeers; ++i) {
    clients.push_back(Connect());
    peers.push_back(Greet(*clients.back()));
  }
  auto bytes = std::make_shared<std::string>(100'000, 'b');
  const std::weak_ptr<std::string> alive = bytes;
  {
    const void* data = bytes->data();
    const size_t size = bytes->size();
    const Message message = {FrameOf("envelope"), Frame(std::move(bytes), data, size)};
    ASSERT_TRUE(server_->Send(peers, message).ok());
  }
  for (auto& client : clients) {
    const Message message = ReceiveFrom(*client);
    ASSERT_EQ(message.size(), 2u);
    EXPECT_EQ(TextOf(message[0]), "envelope");
    EXPECT_EQ(message[1].size(), 100'000u);
    EXPECT_EQ(TextOf(message[1]), std::string(100'000, 'b'));
  }
  // ZeroMQ drops its reference on its own thread, a moment after the bytes are on the wire.
  const Deadline deadline = Deadline::After(kLong);
  while (!alive.expired() && !deadline.Expired()) std::this_thread::yield();
  EXPECT_TRUE(alive.expired());
}

// Small ones are copied, and once there is a connection no message is kept to be sent again.
TEST_P(ZmqChannelTest, SmallFramesAreLetGoWhenTheyAreSent) {
  auto client = Connect();
  Greet(*client);
  auto bytes = std::make_shared<std::string>(100, 'b');
  const std::weak_ptr<std::string> alive = bytes;
  {
    const void* data = bytes->data();
    const size_t size = bytes->size();
    ASSERT_TRUE(client->Send({Frame(std::move(bytes), data, size)}).ok());
  }
  EXPECT_TRUE(alive.expired());
  PeerName peer;
  EXPECT_EQ(TextOf(ReceiveFrom(*server_, &peer)[0]), std::string(100, 'b'));
}

TEST_P(ZmqChannelTest, PeersHaveNamesOfTheirOwn) {
  auto a = Connect();
  auto b = Connect();
  const PeerName name_a = Greet(*a);
  const PeerName name_b = Greet(*b);
  EXPECT_NE(name_a, name_b);
  EXPECT_EQ(Greet(*a), name_a);
  ASSERT_TRUE(server_->Send({&name_b, 1}, {FrameOf("for b")}).ok());
  EXPECT_EQ(TextOf(ReceiveFrom(*b)[0]), "for b");
  EXPECT_FALSE(a->HasInput());
}

TEST_P(ZmqChannelTest, WhatIsSentToAPeerThatIsGoneIsLostAndOthersGetTheirs) {
  auto stays = Connect();
  const PeerName name = Greet(*stays);
  PeerName gone;
  {
    auto leaves = Connect();
    gone = Greet(*leaves);
  }
  const std::vector<PeerName> peers = {gone, "a name that nobody has", name};
  EXPECT_TRUE(server_->Send(peers, {FrameOf("news")}).ok());
  EXPECT_EQ(TextOf(ReceiveFrom(*stays)[0]), "news");
}

TEST_P(ZmqChannelTest, LargeMessagesArriveWhole) {
  auto client = Connect();
  std::string large(8'000'003, '\0');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31);
  ASSERT_TRUE(client->Send({FrameOf(large)}).ok());
  PeerName from;
  EXPECT_TRUE(TextOf(ReceiveFrom(*server_, &from)[0]) == large);
}

TEST_P(ZmqChannelTest, ReceivedFramesOutliveTheirChannel) {
  auto client = Connect();
  ASSERT_TRUE(client->Send({FrameOf(std::string(10'000, 'k'))}).ok());
  PeerName from;
  const Message message = ReceiveFrom(*server_, &from);
  client.reset();
  server_.reset();
  EXPECT_EQ(TextOf(message[0]), std::string(10'000, 'k'));
}

TEST_P(ZmqChannelTest, AnAddressInUseIsRefused) {
  const auto second = ZmqListen(context_, server_->endpoint());
  EXPECT_EQ(second.status().code(), StatusCode::kAlreadyExists) << second.status();
  EXPECT_THAT(lockstep::Message(second.status()), HasSubstr(server_->endpoint()));
}

TEST_P(ZmqChannelTest, EndpointIsWhereItReallyListens) {
  EXPECT_EQ(server_->endpoint().find('*'), std::string::npos) << server_->endpoint();
  EXPECT_EQ(server_->endpoint().rfind(GetParam() + "://", 0), 0u) << server_->endpoint();
  if (GetParam() == "tcp") {
    EXPECT_EQ(server_->endpoint().rfind("tcp://127.0.0.1:", 0), 0u) << server_->endpoint();
  }
}

// A worker that is a thread is replaced by another one at the same endpoint.
TEST(ZmqInprocTest, EndpointIsFreeAsSoonAsItsListenerIsGone) {
  const auto context = ZmqContext::Create();
  const std::string endpoint = NewEndpoint("inproc");
  for (int round = 0; round < 200; ++round) {
    const auto listening = ZmqListen(context, endpoint, {.max_message_bytes = 1000});
    ASSERT_TRUE(listening.ok()) << "round " << round << ": " << listening.status();
    auto client = ZmqConnect(context, endpoint);
    ASSERT_TRUE(client.ok()) << client.status();
    ASSERT_TRUE((*client)->Send({FrameOf("hello")}).ok());
    PeerName peer;
    EXPECT_EQ(TextOf(ReceiveFrom(**listening, &peer)[0]), "hello");
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ZmqChannelTest, testing::Values("inproc", "ipc", "tcp"),
                         [](const auto& info) { return info.param; });

// A message that is too large costs its sender the connection, and the receiver nothing.
TEST(ZmqLimitsTest, OversizedMessageIsDroppedAndOthersGoOn) {
  auto context = ZmqContext::Create();
  auto server = ZmqListen(context, "tcp://127.0.0.1:*", {.max_message_bytes = 1000});
  ASSERT_TRUE(server.ok());
  auto hostile = ZmqConnect(ZmqContext::Create(), (*server)->endpoint());
  auto friendly = ZmqConnect(ZmqContext::Create(), (*server)->endpoint());
  ASSERT_TRUE((*hostile)->Send({FrameOf(std::string(5000, 'x'))}).ok());
  ASSERT_TRUE((*friendly)->Send({FrameOf(std::string(900, 'y'))}).ok());
  PeerName from;
  EXPECT_EQ(TextOf(ReceiveFrom(**server, &from)[0]), std::string(900, 'y'));
  Message message;
  EXPECT_FALSE((*server)->Receive(&from, &message));
}

TEST(ZmqLimitsTest, MessageOfTooManyFramesIsDroppedAndOthersGoOn) {
  auto server = ZmqListen(ZmqContext::Create(), "tcp://127.0.0.1:*");
  ASSERT_TRUE(server.ok());
  auto client = ZmqConnect(ZmqContext::Create(), (*server)->endpoint());
  for (const size_t frames : {kMaxFrames, kMaxFrames + 1, size_t{1000}, size_t{1}}) {
    ASSERT_TRUE((*client)->Send(lockstep::control::Message(frames, FrameOf("frame"))).ok());
  }
  PeerName from;
  EXPECT_EQ(ReceiveFrom(**server, &from).size(), kMaxFrames);
  EXPECT_EQ(ReceiveFrom(**server, &from).size(), 1u);
  ASSERT_TRUE((*server)->Send({&from, 1}, lockstep::control::Message(20, FrameOf("no"))).ok());
  ASSERT_TRUE((*server)->Send({&from, 1}, {FrameOf("yes")}).ok());
  EXPECT_EQ(TextOf(ReceiveFrom(**client)[0]), "yes");
}

// A client that asks and never reads the answers costs a bounded amount of memory.
TEST(ZmqLimitsTest, PeerThatDoesNotReadLosesMessagesAndOthersDoNot) {
  auto server = ZmqListen(ZmqContext::Create(), "tcp://127.0.0.1:*", {.max_unread = 10});
  ASSERT_TRUE(server.ok());
  // Unlike ours, it takes nothing from the wire that is not read.
  const auto context = ZmqContext::Create();
  void* lazy = zmq_socket(context->handle(), ZMQ_DEALER);
  const int one = 1;
  const int none = 0;
  zmq_setsockopt(lazy, ZMQ_RCVHWM, &one, sizeof one);
  zmq_setsockopt(lazy, ZMQ_LINGER, &none, sizeof none);
  ASSERT_EQ(zmq_connect(lazy, (*server)->endpoint().c_str()), 0);
  ASSERT_EQ(zmq_send(lazy, "lazy", 4, 0), 4);
  auto busy = ZmqConnect(ZmqContext::Create(), (*server)->endpoint());
  PeerName lazy_name;
  (void)ReceiveFrom(**server, &lazy_name);
  ASSERT_TRUE((*busy)->Send({FrameOf("busy")}).ok());
  PeerName busy_name;
  (void)ReceiveFrom(**server, &busy_name);
  const auto bytes = std::make_shared<std::string>(100'000, 'b');
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(
        (*server)->Send({&lazy_name, 1}, {Frame(bytes, bytes->data(), bytes->size())}).ok());
  }
  EXPECT_LE(bytes.use_count(), 1 + 100) << "the messages that are kept";
  ASSERT_TRUE((*server)->Send({&busy_name, 1}, {FrameOf("still here")}).ok());
  EXPECT_EQ(TextOf(ReceiveFrom(**busy)[0]), "still here");
  zmq_close(lazy);
}

}  // namespace
}  // namespace lockstep::control
