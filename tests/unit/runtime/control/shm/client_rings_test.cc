// Channels of clients: each has a ring of its own, and goes on by socket without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/control/input_waiter.h"
#include "runtime/control/shm/ring_client_channel.h"
#include "runtime/control/shm/ring_server_channel.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "tests/support/files.h"
#include "tests/support/patience.h"
#include "tests/unit/runtime/control/shm/test_rings.h"

namespace lockstep::control {
namespace {

using support::kLong;

// A connection that loses a message.
class LossyChannel final : public ClientChannel {
 public:
  explicit LossyChannel(std::unique_ptr<ClientChannel> inner) : inner_(std::move(inner)) {}

  bool HasInput() override { return inner_->HasInput(); }
  int wait_fd() const override { return inner_->wait_fd(); }
  bool drained() const override { return inner_->drained(); }
  Status Send(const Message& message) override {
    return std::exchange(loses_next_sent, false) ? OkStatus() : inner_->Send(message);
  }
  bool Receive(Message* message) override {
    if (!inner_->Receive(message)) return false;
    if (!std::exchange(loses_next, false)) return true;
    return inner_->Receive(message);
  }

  uint64_t interruptions() override { return interrupted; }

  bool loses_next = false;
  bool loses_next_sent = false;
  uint64_t interrupted = 0;

 private:
  const std::unique_ptr<ClientChannel> inner_;
};

class ClientRingsTest : public testing::Test {
 protected:
  static constexpr int kSlots = 16;

  void SetUp() override { Listen(); }
  void Listen() {
    server_.reset();
    auto sockets = ZmqListen(context_, "ipc://" + directory_.path() + "/clients");
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    auto server = RingServerChannel::Create(std::move(*sockets), RingServerChannel::Peers::kClients,
                                            kSlots, kLong);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = std::move(*server);
  }

  struct Client {
    std::unique_ptr<RingClientChannel> channel;
    LossyChannel* sockets;  // of it
    PeerName name;
  };
  enum class Note { kArrives, kIsLost };
  // kIsLost: what tells the controller to read the client's ring.
  Client Connect(Note note = Note::kArrives) {
    auto sockets = ZmqConnect(context_, server_->endpoint());
    EXPECT_TRUE(sockets.ok()) << sockets.status();
    auto lossy = std::make_unique<LossyChannel>(std::move(*sockets));
    LossyChannel* const borrowed = lossy.get();
    Client client{std::make_unique<RingClientChannel>(std::move(lossy),
                                                      RingClientChannel::AtEnd::kGoOnBySocket),
                  borrowed, ""};
    EXPECT_TRUE(client.channel->Send(Text("hello")).ok());
    EXPECT_EQ(TakeFromClients(&client.name), "hello");
    borrowed->loses_next_sent = note == Note::kIsLost;
    Attach(client);
    return client;
  }
  void Attach(Client& client) {
    const std::optional<RingOffer> offer = server_->OfferTo(client.name);
    ASSERT_TRUE(offer.has_value());
    Status attached;
    std::thread asking([&] { attached = client.channel->Attach(*offer, Deadline::After(kLong)); });
    while (!server_->IsByRing(client.name)) {
      (void)server_->HasInput();
      std::this_thread::yield();
    }
    asking.join();
    ASSERT_TRUE(attached.ok()) << attached;
    ASSERT_TRUE(server_->Send({&client.name, 1}, Text("welcome")).ok());
    ASSERT_EQ(Take(client), "welcome");
    ASSERT_TRUE(client.channel->by_ring());
  }
  void Tell(Client& client, const std::string& text) {
    ASSERT_TRUE(server_->Send({&client.name, 1}, Text(text)).ok());
  }

  std::string TakeFromClients(PeerName* from) {
    Message message;
    while (!server_->Receive(from, &message)) {
      Channel* const channels[] = {server_.get()};
      if (!waiter_.Wait(channels, {}, Deadline::After(kLong))) return "nothing";
    }
    return TextOf(message);
  }
  std::string Take(Client& client) {
    Message message;
    while (!client.channel->Receive(&message)) {
      Channel* const channels[] = {client.channel.get()};
      if (!waiter_.Wait(channels, {}, Deadline::After(kLong))) return "nothing";
    }
    return TextOf(message);
  }

  const support::ScratchDirectory directory_;
  const std::shared_ptr<ZmqContext> context_ = ZmqContext::Create();
  std::unique_ptr<RingServerChannel> server_;
  InputWaiter waiter_{std::chrono::microseconds(0)};
};

TEST_F(ClientRingsTest, EachIsToldItsOwnAndLargeMessagesKeepTheirPlace) {
  Client first = Connect();
  Client second = Connect();
  Tell(first, "1");
  Tell(second, "2");
  Tell(first, std::string(kLargeBytes, 'x'));
  Tell(first, "3");
  EXPECT_EQ(Take(first), "1");
  EXPECT_EQ(Take(first), std::string(kLargeBytes, 'x'));
  EXPECT_EQ(Take(first), "3");
  EXPECT_EQ(Take(second), "2");
  for (const std::string& text :
       {std::string("a"), std::string(kLargeBytes, 'y'), std::string("b")}) {
    ASSERT_TRUE(second.channel->Send(Text(text)).ok());
  }
  PeerName from;
  for (const std::string& text :
       {std::string("a"), std::string(kLargeBytes, 'y'), std::string("b")}) {
    EXPECT_EQ(TakeFromClients(&from), text);
    EXPECT_EQ(from, second.name);
  }
}

TEST_F(ClientRingsTest, OneThatDoesNotReadHoldsNobodyBackAndLosesItsRing) {
  Client deaf = Connect();
  Client other = Connect();
  const std::string text(100, 't');
  int told = 0;
  std::vector<RingServerChannel::Broken> broken;
  while (broken.empty()) {
    Tell(deaf, text);
    ++told;
    ASSERT_LT(told, 50'000);
    (void)server_->HasInput();
    broken = server_->TakeBroken();
  }
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].peer, deaf.name);
  EXPECT_EQ(broken[0].why.code(), StatusCode::kResourceExhausted);
  Tell(other, "still here");
  EXPECT_EQ(Take(other), "still here");
  // What was in its ring is read yet, and what comes then comes by socket, both ways.
  Tell(deaf, "the end");
  int read = 0;
  for (std::string taken = Take(deaf); taken == text; taken = Take(deaf)) ++read;
  EXPECT_GT(read, 0);
  EXPECT_LT(read, told);
  EXPECT_FALSE(deaf.channel->by_ring());
  ASSERT_TRUE(deaf.channel->Send(Text("I hear again")).ok());
  PeerName from;
  EXPECT_EQ(TakeFromClients(&from), "I hear again");
  EXPECT_EQ(from, deaf.name);
}

TEST_F(ClientRingsTest, AnotherControllerIsReachedBySocketAndGivesAnotherRing) {
  Client client = Connect();
  Tell(client, "last words");
  Listen();
  EXPECT_EQ(Take(client), "last words");
  // Until it has connected again, and noticed.
  PeerName from;
  Message message;
  const Deadline deadline = Deadline::After(kLong);
  while (!server_->Receive(&from, &message)) {
    ASSERT_FALSE(deadline.Expired());
    ASSERT_TRUE(client.channel->Send(Text("who is there?")).ok());
    Channel* const channels[] = {client.channel.get()};
    (void)waiter_.Wait(channels, {}, Deadline::After(std::chrono::milliseconds(5)));
    Message none;
    ASSERT_FALSE(client.channel->Receive(&none));
  }
  EXPECT_EQ(TextOf(message), "who is there?");
  EXPECT_FALSE(client.channel->by_ring());
  client.name = from;
  Attach(client);
}

// No thread sleeps on the channel meanwhile.
TEST_F(ClientRingsTest, TheEndOfAControllerIsNoticedByWhoOnlySends) {
  Client client = Connect();
  Listen();
  PeerName from;
  Message message;
  const Deadline deadline = Deadline::After(kLong);
  while (!server_->Receive(&from, &message)) {
    ASSERT_FALSE(deadline.Expired());
    client.channel->NoticeEnd(kLong);
    Message none;
    ASSERT_FALSE(client.channel->Receive(&none));
    ASSERT_TRUE(client.channel->Send(Text("still there?")).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(TextOf(message), "still there?");
}

TEST_F(ClientRingsTest, WhatAConnectionHasLostIsNotWaitedForForEver) {
  Client client = Connect();
  client.sockets->loses_next = true;
  Tell(client, std::string(kLargeBytes, 'x'));
  Tell(client, "behind it");
  const Deadline deadline = Deadline::After(kLong);
  Message message;
  while (client.sockets->loses_next) {
    ASSERT_FALSE(deadline.Expired());
    ASSERT_FALSE(client.channel->Receive(&message));
  }
  client.channel->NoticeEnd(std::chrono::milliseconds(0));
  EXPECT_TRUE(client.channel->by_ring()) << "as far as it knows, it is only late";
  ++client.sockets->interrupted;
  client.channel->NoticeEnd(kLong);
  EXPECT_FALSE(client.channel->Receive(&message));
  client.channel->NoticeEnd(std::chrono::milliseconds(0));
  // What the ring holds is lost with it, and all that follows goes by socket, both ways.
  ASSERT_TRUE(client.channel->Send(Text("I go on")).ok());
  PeerName from;
  EXPECT_EQ(TakeFromClients(&from), "I go on");
  EXPECT_FALSE(server_->IsByRing(client.name));
  Tell(client, "and I");
  EXPECT_EQ(Take(client), "and I");
}

TEST_F(ClientRingsTest, WhatTellsToReadTheRingIsSaidAgainUntilItIsRead) {
  Client client = Connect(Note::kIsLost);
  ASSERT_TRUE(client.channel->Send(Text("by ring")).ok());
  client.channel->NoticeEnd(kLong);
  PeerName from;
  Message message;
  Channel* const channels[] = {server_.get()};
  EXPECT_FALSE(waiter_.Wait(channels, {}, Deadline::After(std::chrono::milliseconds(20))));
  EXPECT_FALSE(server_->Receive(&from, &message));
  client.channel->NoticeEnd(std::chrono::milliseconds(0));
  client.channel->NoticeEnd(std::chrono::milliseconds(0));  // one of them was slow, it seemed
  EXPECT_EQ(TakeFromClients(&from), "by ring");
  ASSERT_TRUE(client.channel->Send(Text(std::string(kLargeBytes, 'x'))).ok());
  ASSERT_TRUE(client.channel->Send(Text("behind it")).ok());
  EXPECT_EQ(TakeFromClients(&from), std::string(kLargeBytes, 'x'));
  EXPECT_EQ(TakeFromClients(&from), "behind it");
  EXPECT_TRUE(server_->TakeBroken().empty());
  EXPECT_TRUE(server_->IsByRing(client.name));
}

// A message by socket would be taken for the one before it, which was lost.
TEST_F(ClientRingsTest, AMessageIsNotTakenForALostOne) {
  Client client = Connect();
  client.sockets->loses_next = true;
  Tell(client, std::string(kLargeBytes, 'x'));
  Tell(client, "between them");
  Tell(client, std::string(kLargeBytes, 'y'));
  const Deadline deadline = Deadline::After(kLong);
  Message message;
  while (client.channel->by_ring()) {
    ASSERT_FALSE(deadline.Expired());
    ASSERT_FALSE(client.channel->Receive(&message));
  }
  ASSERT_TRUE(client.channel->Send(Text("I go on")).ok());
  PeerName from;
  EXPECT_EQ(TakeFromClients(&from), "I go on");
  Tell(client, "and I");
  EXPECT_EQ(Take(client), "and I");
}

// A controller that stands still later loses nothing for it.
TEST_F(ClientRingsTest, AnInterruptionAfterWhichAllWasWellIsNoLoss) {
  Client client = Connect();
  PeerName from;
  ++client.sockets->interrupted;
  ASSERT_TRUE(client.channel->Send(Text("first")).ok());
  ASSERT_EQ(TakeFromClients(&from), "first");
  client.channel->NoticeEnd(std::chrono::milliseconds(0));
  ASSERT_TRUE(client.channel->Send(Text("second")).ok());
  for (int i = 0; i < 2; ++i) client.channel->NoticeEnd(std::chrono::milliseconds(0));
  EXPECT_TRUE(client.channel->by_ring());
  // Nor does one whose connection breaks meanwhile: what the ring holds was said before.
  ++client.sockets->interrupted;
  client.channel->NoticeEnd(std::chrono::milliseconds(0));
  EXPECT_FALSE(client.channel->by_ring());
  ASSERT_TRUE(client.channel->Send(Text("by socket")).ok());
  EXPECT_EQ(TakeFromClients(&from), "second");
  EXPECT_EQ(TakeFromClients(&from), "by socket");
}

// What it says by socket is numbered, too, and may come before the note that says so.
TEST_F(ClientRingsTest, ANumberSaysThatTheRingIsToBeReadAsTheNoteDoes) {
  Client client = Connect(Note::kIsLost);
  ASSERT_TRUE(client.channel->Send(Text("by ring")).ok());
  ASSERT_TRUE(client.channel->Send(Text(std::string(kLargeBytes, 'x'))).ok());
  PeerName from;
  EXPECT_EQ(TakeFromClients(&from), "by ring");
  EXPECT_EQ(TakeFromClients(&from), std::string(kLargeBytes, 'x'));
  EXPECT_TRUE(server_->TakeBroken().empty());
}

// The controller waits for it, and reads nothing of the ring meanwhile.
TEST_F(ClientRingsTest, WhatAConnectionHasLostOnItsWayUpIsNotWaitedForForEver) {
  Client client = Connect();
  ASSERT_TRUE(client.channel->Send(Text("first")).ok());
  PeerName from;
  ASSERT_EQ(TakeFromClients(&from), "first");
  client.sockets->loses_next_sent = true;
  ASSERT_TRUE(client.channel->Send(Text(std::string(kLargeBytes, 'x'))).ok());
  ASSERT_TRUE(client.channel->Send(Text("taken, and held")).ok());
  ASSERT_TRUE(client.channel->Send(Text("behind it")).ok());
  Message message;
  (void)server_->HasInput();
  ASSERT_FALSE(server_->Receive(&from, &message));
  for (int i = 0; i < 2; ++i) client.channel->NoticeEnd(std::chrono::milliseconds(0));
  EXPECT_TRUE(client.channel->by_ring()) << "as far as it knows, it is only late";
  ++client.sockets->interrupted;
  client.channel->NoticeEnd(kLong);
  EXPECT_TRUE(client.channel->by_ring());
  client.channel->NoticeEnd(std::chrono::milliseconds(0));
  ASSERT_TRUE(client.channel->Send(Text("I go on")).ok());
  EXPECT_EQ(TakeFromClients(&from), "I go on");
  EXPECT_FALSE(server_->IsByRing(client.name));
}

// Nothing was said by ring since, or one message, which the controller has taken and holds.
TEST_F(ClientRingsTest, AnInterruptionIsRememberedUntilWhatWasSaidBySocketIsKnownToHaveCome) {
  for (const int by_ring : {0, 1}) {
    Client client = Connect();
    ASSERT_TRUE(client.channel->Send(Text("first")).ok());
    PeerName from;
    ASSERT_EQ(TakeFromClients(&from), "first");
    client.sockets->loses_next_sent = true;
    ASSERT_TRUE(client.channel->Send(Text(std::string(kLargeBytes, 'x'))).ok());
    ++client.sockets->interrupted;
    Message message;
    for (int i = 0; i < by_ring; ++i) {
      ASSERT_TRUE(client.channel->Send(Text("held")).ok());
      ASSERT_FALSE(server_->Receive(&from, &message));
    }
    client.channel->NoticeEnd(std::chrono::milliseconds(0));
    EXPECT_TRUE(client.channel->by_ring());
    for (int i = by_ring; i < 2; ++i) ASSERT_TRUE(client.channel->Send(Text("unread")).ok());
    (void)server_->HasInput();
    ASSERT_FALSE(server_->Receive(&from, &message));
    for (int i = 0; i < 2; ++i) client.channel->NoticeEnd(std::chrono::milliseconds(0));
    EXPECT_FALSE(client.channel->by_ring()) << by_ring;
    ASSERT_TRUE(client.channel->Send(Text("I go on")).ok());
    EXPECT_EQ(TakeFromClients(&from), "I go on");
  }
}

// The connection broke when the controller was to say from where on the ring is read.
TEST_F(ClientRingsTest, RingsThatAreLateAreGivenUpAndTheirNoteIsNoMessage) {
  auto sockets = ZmqConnect(context_, server_->endpoint());
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  auto interrupted = std::make_unique<LossyChannel>(std::move(*sockets));
  LossyChannel* const connection = interrupted.get();
  RingClientChannel late(std::move(interrupted), RingClientChannel::AtEnd::kGoOnBySocket);
  ASSERT_TRUE(late.Send(Text("hello")).ok());
  PeerName from;
  ASSERT_EQ(TakeFromClients(&from), "hello");
  const RingOffer given = *server_->OfferTo(from);
  std::thread asking([&] { EXPECT_TRUE(late.Attach(given, Deadline::After(kLong)).ok()); });
  while (!server_->IsByRing(from)) {
    (void)server_->HasInput();
    std::this_thread::yield();
  }
  asking.join();
  // The note is on its way by now.
  ++connection->interrupted;
  late.NoticeEnd(std::chrono::milliseconds(0));
  const Deadline deadline = Deadline::After(kLong);
  while (server_->IsByRing(from)) {
    ASSERT_FALSE(deadline.Expired());
    Channel* const channels[] = {server_.get()};
    (void)waiter_.Wait(channels, {}, Deadline::After(std::chrono::milliseconds(5)));
  }
  ASSERT_TRUE(server_->Send({&from, 1}, Text("by socket")).ok());
  Message message;
  while (!late.Receive(&message)) ASSERT_FALSE(deadline.Expired());
  EXPECT_EQ(TextOf(message), "by socket");
}

// A thread sleeps by socket while another one takes the rings: it is woken by them.
TEST_F(ClientRingsTest, WhoSleepsWhenRingsComeIsWokenByThem) {
  Client client = Connect();
  Listen();
  PeerName from;
  Message message;
  const Deadline deadline = Deadline::After(kLong);
  while (!server_->Receive(&from, &message)) {
    ASSERT_FALSE(deadline.Expired());
    client.channel->NoticeEnd(kLong);
    (void)client.channel->Receive(&message);
    ASSERT_TRUE(client.channel->Send(Text("again")).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  client.name = from;
  client.channel->BeginSleep();
  const std::optional<RingOffer> offer = server_->OfferTo(client.name);
  Status attached;
  std::thread asking([&] { attached = client.channel->Attach(*offer, Deadline::After(kLong)); });
  while (!server_->IsByRing(client.name)) {
    (void)server_->HasInput();
    std::this_thread::yield();
  }
  asking.join();
  ASSERT_TRUE(attached.ok()) << attached;
  while (!client.channel->by_ring()) (void)client.channel->Receive(&message);
  client.channel->EndSleep();
  // Asleep by ring now: one wake-up makes the descriptor readable.
  client.channel->BeginSleep();
  while (client.channel->HasInput() && client.channel->Receive(&message)) continue;
  Tell(client, "wake up");
  pollfd set = {client.channel->wait_fd(), POLLIN, 0};
  EXPECT_EQ(poll(&set, 1, static_cast<int>(std::chrono::milliseconds(kLong).count())), 1);
  client.channel->EndSleep();
  EXPECT_EQ(Take(client), "wake up");
}

TEST_F(ClientRingsTest, OneThatEndsLeavesItsRingToOthersOnceItWasRead) {
  for (int i = 0; i < 10; ++i) {
    Client client = Connect();
    ASSERT_TRUE(client.channel->Send(Text("bye")).ok());
    client.channel.reset();
    PeerName from;
    EXPECT_EQ(TakeFromClients(&from), "bye");
    const Deadline deadline = Deadline::After(kLong);
    while (server_->IsByRing(client.name) && !deadline.Expired()) {
      PeerName nobody;
      Message nothing;
      Channel* const channels[] = {server_.get()};
      (void)waiter_.Wait(channels, {}, Deadline::After(std::chrono::milliseconds(5)));
      EXPECT_FALSE(server_->Receive(&nobody, &nothing));
    }
    EXPECT_FALSE(server_->IsByRing(client.name));
  }
}

}  // namespace
}  // namespace lockstep::control
