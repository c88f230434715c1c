// Channels of clients: each has a ring of its own, and goes on by socket without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/unit/runtime/control/shm/client_rings_fixture.h"

namespace lockstep::control {
namespace {

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
  HandOver(*client.channel, client.name);
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

TEST_F(ClientRingsTest, WhatIsAtHandIsSeenAndWhatHasWokenASleeperIsLeftToIt) {
  Client client = Connect();
  const auto is_readable = [&] {
    pollfd set = {server_->wait_fd(), POLLIN, 0};
    return poll(&set, 1, 0) == 1;
  };
  ASSERT_TRUE(client.channel->Send(Text("hello by ring")).ok());
  PeerName from;
  ASSERT_EQ(TakeFromClients(&from), "hello by ring");
  // What the system had to say is known.
  const Deadline deadline = Deadline::After(kLong);
  while (is_readable()) {
    ASSERT_FALSE(deadline.Expired());
    server_->BeginSleep();
    (void)server_->HasInput();
  }
  server_->CancelSleep();
  EXPECT_FALSE(server_->HasInputAtHand());
  ASSERT_TRUE(client.channel->Send(Text("nobody sleeps")).ok());
  EXPECT_TRUE(server_->HasInputAtHand());
  EXPECT_FALSE(is_readable());
  server_->BeginSleep();
  ASSERT_TRUE(client.channel->Send(Text("wake up")).ok());
  server_->CancelSleep();
  EXPECT_TRUE(is_readable());
  server_->EndSleep();
  EXPECT_FALSE(is_readable());
  EXPECT_EQ(TakeFromClients(&from), "nobody sleeps");
  EXPECT_EQ(TakeFromClients(&from), "wake up");
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
