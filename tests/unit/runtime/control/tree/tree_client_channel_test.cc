// The worker's channel with its thread, over real sockets, with the keys that these ask for.
#include "runtime/control/tree/tree_client_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/control/tree/tree_server_channel.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/support/patience.h"
#include "tests/unit/runtime/control/tree/tree_network.h"

namespace lockstep::control {
namespace {

using support::kLong;

class TreeClientChannelTest : public testing::Test {
 protected:
  static constexpr size_t kWorkers = 6;

  struct Worker {
    PeerName peer;
    std::unique_ptr<ClientChannel> sockets;
    std::unique_ptr<TreeClientChannel> channel;
  };

  void SetUp() override {
    auto sockets = ZmqListen(context_, "inproc://tree_client_channel_test");
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    server_ = std::make_unique<TreeServerChannel>(std::move(*sockets), 2);
    for (size_t i = 0; i < kWorkers; ++i) workers_.push_back(Connect());
    std::vector<PeerName> peers;
    for (const Worker& worker : workers_) peers.push_back(worker.peer);
    server_->Arrange(peers);
    for (const Worker& worker : workers_) {
      const auto offer = server_->OfferTo(worker.peer);
      ASSERT_TRUE(offer.has_value());
      ASSERT_TRUE(server_->Send({&worker.peer, 1}, TextMessage("welcome")).ok());
      EXPECT_EQ(Take(*worker.channel), "welcome");
      worker.channel->Begin(*offer);
    }
  }
  Worker Connect() {
    Worker worker;
    auto sockets = ZmqConnect(context_, "inproc://tree_client_channel_test");
    EXPECT_TRUE(sockets.ok()) << sockets.status();
    worker.sockets = std::move(*sockets);
    const auto listen = [this](const std::shared_ptr<Gate>& gate) -> StatusOr<RelayListener> {
      LOCKSTEP_ASSIGN_OR_RETURN(auto channel,
                                ZmqListen(context_, "tcp://127.0.0.1:*", {.gate = gate}));
      const std::string endpoint = channel->endpoint();
      return RelayListener{std::move(channel), endpoint};
    };
    const auto connect = [this](const std::string& endpoint, CredentialSource credentials) {
      ZmqOptions options;
      options.credentials = std::move(credentials);
      return ZmqConnect(context_, endpoint, options);
    };
    worker.channel = std::make_unique<TreeClientChannel>(
        *worker.sockets, TreeConnections{listen, connect}, std::chrono::microseconds(0));
    EXPECT_TRUE(worker.channel->Send(TextMessage("hello")).ok());
    Message message;
    while (!server_->Receive(&worker.peer, &message)) std::this_thread::yield();
    return worker;
  }
  // The next message; what is under way meanwhile goes on.
  std::string Take(ClientChannel& channel) {
    Message message;
    while (!channel.Receive(&message)) {
      TakeAnswers();
      std::this_thread::yield();
    }
    return TextOfMessage(message);
  }
  void TakeAnswers() {
    PeerName from;
    Message message;
    while (server_->Receive(&from, &message)) answers_.push_back(from + TextOfMessage(message));
  }
  int CountBelowOthers() const {
    int count = 0;
    for (const Worker& worker : workers_) count += server_->IsBelowAnother(worker.peer) ? 1 : 0;
    return count;
  }

  const std::shared_ptr<ZmqContext> context_ = ZmqContext::Create();
  std::unique_ptr<TreeServerChannel> server_;
  std::vector<Worker> workers_;
  std::vector<std::string> answers_;
};

TEST_F(TreeClientChannelTest, CommandsAndAnswersPassOverTheNetwork) {
  std::vector<PeerName> peers;
  for (const Worker& worker : workers_) peers.push_back(worker.peer);
  int said = 0;
  const auto say = [&] {
    const std::string text = std::to_string(said++);
    ASSERT_TRUE(server_->Send(peers, TextMessage(text)).ok());
    for (const Worker& worker : workers_) EXPECT_EQ(Take(*worker.channel), text);
  };
  say();
  const Deadline deadline = Deadline::After(kLong);
  while (CountBelowOthers() < 4 && !deadline.Expired()) say();
  EXPECT_EQ(CountBelowOthers(), 4) << "by the keys that the controller has made known";
  for (int i = 0; i < 20; ++i) say();
  answers_.clear();
  std::vector<std::string> expected;
  for (const Worker& worker : workers_) {
    EXPECT_TRUE(worker.channel->Send(TextMessage("answer")).ok());
    expected.push_back(worker.peer + "answer");
  }
  while (answers_.size() < kWorkers && !deadline.Expired()) TakeAnswers();
  EXPECT_THAT(answers_, testing::UnorderedElementsAreArray(expected));
}

// Those below see it themselves when their connection with it ends: nobody tells them.
TEST_F(TreeClientChannelTest, WorkersLeaveAParentThatTheirConnectionHasEndedWith) {
  std::vector<PeerName> peers;
  for (const Worker& worker : workers_) peers.push_back(worker.peer);
  const Deadline deadline = Deadline::After(kLong);
  while (CountBelowOthers() < 4 && !deadline.Expired()) {
    ASSERT_TRUE(server_->Send(peers, TextMessage("call")).ok());
    TakeAnswers();
  }
  ASSERT_EQ(CountBelowOthers(), 4);
  workers_[0].channel.reset();
  while (CountBelowOthers() > 2 && !deadline.Expired()) TakeAnswers();
  EXPECT_EQ(CountBelowOthers(), 2);
}

// What a worker says last still leaves when its channel ends.
TEST_F(TreeClientChannelTest, LastWordsLeave) {
  answers_.clear();
  EXPECT_TRUE(workers_[0].channel->Send(TextMessage("goodbye")).ok());
  const std::string expected = workers_[0].peer + "goodbye";
  workers_[0].channel.reset();
  workers_[0].sockets.reset();
  const Deadline deadline = Deadline::After(kLong);
  while (answers_.empty() && !deadline.Expired()) TakeAnswers();
  EXPECT_THAT(answers_, testing::ElementsAre(expected));
}

}  // namespace
}  // namespace lockstep::control
