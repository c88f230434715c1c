// What rings do about messages that a connection beside them loses, in either direction.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/unit/runtime/control/shm/client_rings_fixture.h"

namespace lockstep::control {
namespace {

class LostMessagesTest : public ClientRingsTest {
 protected:
  // The controller has read something of the client's ring, and the connection loses what the
  // client says next, by socket.
  void LoseAfterTheFirst(Client& client) {
    ASSERT_TRUE(client.channel->Send(Text("first")).ok());
    PeerName from;
    ASSERT_EQ(TakeFromClients(&from), "first");
    client.sockets->loses_next_sent = true;
    ASSERT_TRUE(client.channel->Send(Text(std::string(kLargeBytes, 'x'))).ok());
  }
};

TEST_F(LostMessagesTest, WhatAConnectionHasLostIsNotWaitedForForEver) {
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

TEST_F(LostMessagesTest, WhatTellsToReadTheRingIsSaidAgainUntilItIsRead) {
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
TEST_F(LostMessagesTest, AMessageIsNotTakenForALostOne) {
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
TEST_F(LostMessagesTest, AnInterruptionAfterWhichAllWasWellIsNoLoss) {
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
TEST_F(LostMessagesTest, ANumberSaysThatTheRingIsToBeReadAsTheNoteDoes) {
  Client client = Connect(Note::kIsLost);
  ASSERT_TRUE(client.channel->Send(Text("by ring")).ok());
  ASSERT_TRUE(client.channel->Send(Text(std::string(kLargeBytes, 'x'))).ok());
  PeerName from;
  EXPECT_EQ(TakeFromClients(&from), "by ring");
  EXPECT_EQ(TakeFromClients(&from), std::string(kLargeBytes, 'x'));
  EXPECT_TRUE(server_->TakeBroken().empty());
}

// The controller waits for it, and reads nothing of the ring meanwhile.
TEST_F(LostMessagesTest, WhatAConnectionHasLostOnItsWayUpIsNotWaitedForForEver) {
  Client client = Connect();
  LoseAfterTheFirst(client);
  PeerName from;
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
TEST_F(LostMessagesTest, AnInterruptionIsRememberedUntilWhatWasSaidBySocketIsKnownToHaveCome) {
  for (const int by_ring : {0, 1}) {
    Client client = Connect();
    LoseAfterTheFirst(client);
    PeerName from;
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
TEST_F(LostMessagesTest, RingsThatAreLateAreGivenUpAndTheirNoteIsNoMessage) {
  auto sockets = ZmqConnect(context_, server_->endpoint());
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  auto interrupted = std::make_unique<LossyChannel>(std::move(*sockets));
  LossyChannel* const connection = interrupted.get();
  RingClientChannel late(std::move(interrupted), RingClientChannel::AtEnd::kGoOnBySocket);
  ASSERT_TRUE(late.Send(Text("hello")).ok());
  PeerName from;
  ASSERT_EQ(TakeFromClients(&from), "hello");
  HandOver(late, from);
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

}  // namespace
}  // namespace lockstep::control
