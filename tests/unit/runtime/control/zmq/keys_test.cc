// Channels with keys: who gets through to a listener, and what becomes of who does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/unit/runtime/control/zmq/messages.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Lets in whom the test names.
class TestGate final : public Gate {
 public:
  explicit TestGate(KeyPair own = NewKeyPair()) : own_(own) {}
  KeyPair own() const override { return own_; }
  StatusOr<Identity> Admit(const PublicKey& key) override {
    std::lock_guard lock(mutex_);
    ++asked_;
    if (admitted_.count(key) == 0) return PermissionDenied("not in the test's list");
    return Identity{admitted_[key], "tester", key};
  }
  bool Holds(const Identity& identity) const override {
    std::lock_guard lock(mutex_);
    return admitted_.count(identity.key) != 0;
  }
  uint64_t version() const override { return version_; }

  void Allow(const PublicKey& key, Role role = Role::kClient) {
    std::lock_guard lock(mutex_);
    admitted_[key] = role;
    ++version_;
  }
  void Forbid(const PublicKey& key) {
    std::lock_guard lock(mutex_);
    admitted_.erase(key);
    ++version_;
  }
  int asked() const {
    std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  const KeyPair own_;
  mutable std::mutex mutex_;
  std::map<PublicKey, Role> admitted_;
  int asked_ = 0;
  std::atomic<uint64_t> version_{1};
};

class KeysTest : public testing::Test {
 protected:
  std::unique_ptr<ServerChannel> Listen(const std::shared_ptr<Gate>& gate,
                                        const std::string& endpoint = "tcp://127.0.0.1:*") {
    auto listening = ZmqListen(context_, endpoint, {.gate = gate});
    EXPECT_TRUE(listening.ok()) << listening.status();
    return std::move(*listening);
  }
  std::unique_ptr<ClientChannel> Connect(const std::string& endpoint,
                                         const CredentialSource& credentials) {
    auto client = ZmqConnect(context_, endpoint, {.credentials = credentials});
    EXPECT_TRUE(client.ok()) << client.status();
    return std::move(*client);
  }
  CredentialSource Show(const KeyPair& own, std::vector<PublicKey> listeners) {
    return [own, listeners]() -> StatusOr<Credentials> { return Credentials{own, listeners}; };
  }
  // Waits until something is wrong with the connection.
  static Status TroubleOf(ClientChannel& client) {
    const Deadline deadline = Deadline::After(kLong);
    InputWaiter waiter(0us);
    Channel* const channels[] = {&client};
    while (client.trouble().ok() && !deadline.Expired()) {
      EXPECT_FALSE(waiter.Wait(channels, {}, Deadline::After(10ms)));
    }
    return client.trouble();
  }

  std::shared_ptr<ZmqContext> context_ = ZmqContext::Create();
  std::shared_ptr<TestGate> gate_ = std::make_shared<TestGate>();
  const KeyPair mine_ = NewKeyPair();
};

TEST_F(KeysTest, KnownKeyGetsThroughAndIsNamed) {
  gate_->Allow(mine_.public_key, Role::kReader);
  const auto server = Listen(gate_);
  const auto client = Connect(server->endpoint(), Show(mine_, {gate_->own().public_key}));
  ASSERT_EQ(client->Send({FrameOf("head"), FrameOf(std::string(100'000, 'x'))}), OkStatus());
  PeerName peer;
  const Message message = ReceiveFrom(*server, &peer);
  ASSERT_EQ(message.size(), 2u);
  EXPECT_EQ(TextOf(message[1]), std::string(100'000, 'x'));
  ASSERT_NE(server->sender(), nullptr);
  EXPECT_EQ(server->sender()->role, Role::kReader);
  EXPECT_EQ(server->sender()->key, mine_.public_key);
  ASSERT_EQ(server->Send({&peer, 1}, {FrameOf("answer")}), OkStatus());
  EXPECT_EQ(TextOf(ReceiveFrom(*client)[0]), "answer");
  EXPECT_EQ(client->trouble(), OkStatus());
}

TEST_F(KeysTest, UnknownKeyIsTurnedAwayAndToldSo) {
  const auto server = Listen(gate_);
  const auto client = Connect(server->endpoint(), Show(mine_, {gate_->own().public_key}));
  ASSERT_EQ(client->Send({FrameOf("hello")}), OkStatus());
  const Status trouble = TroubleOf(*client);
  EXPECT_EQ(trouble.code(), StatusCode::kPermissionDenied) << trouble;
  EXPECT_THAT(lockstep::Message(trouble), HasSubstr(mine_.public_key.Text()));
  EXPECT_FALSE(server->HasInput());
}

TEST_F(KeysTest, WhoIsLetInLaterGetsThroughByHimself) {
  const auto server = Listen(gate_);
  const auto client = Connect(server->endpoint(), Show(mine_, {gate_->own().public_key}));
  for (const char* text : {"one", "two", "three"}) {
    ASSERT_EQ(client->Send({FrameOf(text)}), OkStatus());
  }
  ASSERT_FALSE(TroubleOf(*client).ok());
  gate_->Allow(mine_.public_key);
  PeerName peer;
  std::vector<std::string> received;
  const Deadline deadline = Deadline::After(kLong);
  InputWaiter waiter(0us);
  Channel* const channels[] = {client.get(), server.get()};
  Message message;
  while (received.size() < 3 && !deadline.Expired()) {
    waiter.Wait(channels, {}, Deadline::After(50ms));
    while (server->Receive(&peer, &message)) received.push_back(TextOf(message[0]));
  }
  // Nothing of what was sent meanwhile is lost, or comes twice.
  EXPECT_THAT(received, testing::ElementsAre("one", "two", "three"));
}

TEST_F(KeysTest, ListenerWithAnotherKeyGetsNothing) {
  gate_->Allow(mine_.public_key);
  const auto server = Listen(gate_);
  const PublicKey expected = NewKeyPair().public_key;
  const auto client = Connect(server->endpoint(), Show(mine_, {expected}));
  ASSERT_EQ(client->Send({FrameOf("secret")}), OkStatus());
  const Status trouble = TroubleOf(*client);
  EXPECT_EQ(trouble.code(), StatusCode::kUnavailable) << trouble;
  EXPECT_THAT(lockstep::Message(trouble), HasSubstr(expected.Text()));
  EXPECT_FALSE(server->HasInput());
  EXPECT_EQ(gate_->asked(), 0);
}

TEST_F(KeysTest, AnyOfTheListenersKeysWillDo) {
  gate_->Allow(mine_.public_key);
  const auto server = Listen(gate_);
  const auto client = Connect(
      server->endpoint(),
      Show(mine_, {NewKeyPair().public_key, NewKeyPair().public_key, gate_->own().public_key}));
  ASSERT_EQ(client->Send({FrameOf("hello")}), OkStatus());
  const Deadline deadline = Deadline::After(kLong);
  InputWaiter waiter(0us);
  Channel* const channels[] = {client.get(), server.get()};
  PeerName peer;
  Message message;
  while (message.empty() && !deadline.Expired()) {
    waiter.Wait(channels, {}, Deadline::After(50ms));
    server->Receive(&peer, &message);
  }
  ASSERT_EQ(message.size(), 1u);
  EXPECT_EQ(TextOf(message[0]), "hello");
}

TEST_F(KeysTest, ConnectionStaysWhenAnEarlierAttemptHasEnded) {
  gate_->Allow(mine_.public_key);
  const auto server = Listen(gate_);
  const auto client =
      Connect(server->endpoint(), Show(mine_, {NewKeyPair().public_key, gate_->own().public_key}));
  InputWaiter waiter(0us);
  Channel* const channels[] = {client.get(), server.get()};
  PeerName peer;
  Message message;
  std::vector<std::string> sent;
  std::vector<std::string> received;
  // Longer than any pause between attempts.
  const Deadline end = Deadline::After(3s);
  Deadline next = Deadline::After({});
  const Deadline deadline = Deadline::After(kLong);
  while ((!end.Expired() || received.size() < sent.size()) && !deadline.Expired()) {
    if (!end.Expired() && next.Expired()) {
      sent.push_back(std::to_string(sent.size()));
      ASSERT_EQ(client->Send({FrameOf(sent.back())}), OkStatus());
      next = Deadline::After(50ms);
    }
    waiter.Wait(channels, {}, Deadline::After(20ms));
    while (server->Receive(&peer, &message)) received.push_back(TextOf(message[0]));
    while (client->Receive(&message)) {
    }
  }
  EXPECT_EQ(received, sent);
  EXPECT_EQ(gate_->asked(), 1) << "one connection was made";
  EXPECT_EQ(client->trouble(), OkStatus());
}

TEST_F(KeysTest, WhoShowsNoKeyIsTurnedAway) {
  const auto server = Listen(gate_);
  const auto client = Connect(server->endpoint(), nullptr);
  ASSERT_EQ(client->Send({FrameOf("hello")}), OkStatus());
  const Status trouble = TroubleOf(*client);
  EXPECT_EQ(trouble.code(), StatusCode::kPermissionDenied) << trouble;
  EXPECT_THAT(lockstep::Message(trouble), HasSubstr("asks for keys"));
  EXPECT_FALSE(server->HasInput());
}

TEST_F(KeysTest, NothingIsSaidToAListenerWithoutKeys) {
  const auto server = Listen(nullptr);
  const auto client = Connect(server->endpoint(), Show(mine_, {gate_->own().public_key}));
  ASSERT_EQ(client->Send({FrameOf("secret")}), OkStatus());
  const Status trouble = TroubleOf(*client);
  EXPECT_EQ(trouble.code(), StatusCode::kPermissionDenied) << trouble;
  EXPECT_THAT(lockstep::Message(trouble), HasSubstr("uses no keys"));
  EXPECT_FALSE(server->HasInput());
}

TEST_F(KeysTest, WhatIsSentAfterAKeyWasTakenBackIsDropped) {
  gate_->Allow(mine_.public_key);
  const KeyPair other = NewKeyPair();
  gate_->Allow(other.public_key);
  const auto server = Listen(gate_);
  const auto client = Connect(server->endpoint(), Show(mine_, {gate_->own().public_key}));
  const auto witness = Connect(server->endpoint(), Show(other, {gate_->own().public_key}));
  PeerName peer;
  ASSERT_EQ(client->Send({FrameOf("one")}), OkStatus());
  EXPECT_EQ(TextOf(ReceiveFrom(*server, &peer)[0]), "one");
  gate_->Forbid(mine_.public_key);
  ASSERT_EQ(client->Send({FrameOf("two")}), OkStatus());
  EXPECT_TRUE(WaitFor(*server)) << "it has come";
  ASSERT_EQ(witness->Send({FrameOf("three")}), OkStatus());
  EXPECT_EQ(TextOf(ReceiveFrom(*server, &peer)[0]), "three");
}

TEST_F(KeysTest, WithoutKeysNoNameIsListenedAtThatAllUsersReach) {
  EXPECT_EQ(ZmqListen(context_, "ipc://@lockstep-keys-test", {}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(KeysTest, SocketsFileIsItsOwnersAlone) {
  const std::string path = "/tmp/lockstep-keys-test-" + std::to_string(getpid()) + ".sock";
  const auto server = ZmqListen(context_, "ipc://" + path, {});
  ASSERT_TRUE(server.ok()) << server.status();
  struct stat file {};
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0077, 0u);
}

TEST_F(KeysTest, WithoutAGateOnlyThisHostMayConnect) {
  const Status status = ZmqListen(context_, "tcp://*:*", {}).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status;
  EXPECT_TRUE(ZmqListen(context_, "tcp://*:*", {.gate = gate_}).ok());
}

TEST_F(KeysTest, ListenersOfOneContextDoNotShareTheirGates) {
  const auto other_gate = std::make_shared<TestGate>();
  other_gate->Allow(mine_.public_key);
  const auto server = Listen(gate_);
  const auto other = Listen(other_gate);
  const auto client = Connect(server->endpoint(), Show(mine_, {gate_->own().public_key}));
  ASSERT_EQ(client->Send({FrameOf("hello")}), OkStatus());
  EXPECT_EQ(TroubleOf(*client).code(), StatusCode::kPermissionDenied);
  const auto welcome = Connect(other->endpoint(), Show(mine_, {other_gate->own().public_key}));
  ASSERT_EQ(welcome->Send({FrameOf("hello")}), OkStatus());
  PeerName peer;
  EXPECT_EQ(TextOf(ReceiveFrom(*other, &peer)[0]), "hello");
}

TEST_F(KeysTest, TooLargeMessagesAreDroppedAlsoWithKeys) {
  gate_->Allow(mine_.public_key);
  auto listening =
      ZmqListen(context_, "tcp://127.0.0.1:*", {.max_message_bytes = 1000, .gate = gate_});
  ASSERT_TRUE(listening.ok()) << listening.status();
  const auto server = std::move(*listening);
  const auto client = Connect(server->endpoint(), Show(mine_, {gate_->own().public_key}));
  ASSERT_EQ(client->Send({FrameOf(std::string(2000, 'x'))}), OkStatus());
  PeerName peer;
  Message message;
  // The connection is closed for it, and made anew.
  const Deadline deadline = Deadline::After(kLong);
  InputWaiter waiter(0us);
  Channel* const channels[] = {client.get(), server.get()};
  while (message.empty() && !deadline.Expired()) {
    ASSERT_EQ(client->Send({FrameOf("small")}), OkStatus());
    waiter.Wait(channels, {}, Deadline::After(50ms));
    server->Receive(&peer, &message);
  }
  ASSERT_EQ(message.size(), 1u);
  EXPECT_EQ(TextOf(message[0]), "small");
}

}  // namespace
}  // namespace lockstep::control
