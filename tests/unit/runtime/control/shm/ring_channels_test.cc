// What comes to whom in which order, whichever way it goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/runtime/control/shm/ring_channels_fixture.h"

namespace lockstep::control {
namespace {

using support::kLong;

// As where threads of clients turn the loop of a thread that sleeps.
TEST_F(RingChannelsTest, WhoSleepsIsWokenAgainAfterAnotherThreadHasTakenItsWake) {
  Worker worker = ConnectByRing();
  Exchange(worker);
  const auto is_woken = [this] {
    pollfd set = {server_->wait_fd(), POLLIN, 0};
    return poll(&set, 1, 0) == 1;
  };
  while (server_->HasInput() || is_woken()) {
    PeerName from;
    Message message;
    (void)server_->Receive(&from, &message);
  }
  server_->BeginSleep();
  for (const char* text : {"1", "2"}) {
    ASSERT_FALSE(is_woken());
    ASSERT_TRUE(worker.channel->Send(Text(text)).ok());
    ASSERT_TRUE(is_woken());
    std::string taken;
    PeerName from;
    Message message;
    for (int i = 0; i < 100 && is_woken(); ++i) {
      if (server_->Receive(&from, &message)) taken += TextOf(message);
    }
    EXPECT_EQ(taken, text);
  }
  server_->EndSleep();
}

TEST_F(RingChannelsTest, WithAndWithoutARingAllGetTheSameInOneOrder) {
  Worker first = ConnectByRing();
  Worker second = Connect();
  Worker third = ConnectByRing();
  const std::vector<PeerName> all = {first.name, second.name, third.name};
  ASSERT_TRUE(server_->Send(all, Text("1")).ok());
  ASSERT_TRUE(server_->Send(all, Large('2')).ok());
  ASSERT_TRUE(server_->Send({&third.name, 1}, Text("only you")).ok());
  ASSERT_TRUE(server_->Send(all, Text("3")).ok());
  for (Worker* worker : {&first, &second, &third}) {
    EXPECT_EQ(Take(*worker), "1");
    EXPECT_EQ(Take(*worker), std::string(kLargeBytes, '2'));
    if (worker == &third) {
      EXPECT_EQ(Take(*worker), "only you");
    }
    EXPECT_EQ(Take(*worker), "3");
  }
  EXPECT_TRUE(first.channel->by_ring());
  EXPECT_FALSE(second.channel->by_ring());
}

TEST_F(RingChannelsTest, WhatOneWorkerSaysKeepsItsOrderWhicheverWayItGoes) {
  Worker worker = ConnectByRing();
  // The first goes by socket: the worker has not heard of its ring yet.
  ASSERT_TRUE(worker.channel->Send(Text("before")).ok());
  ASSERT_TRUE(server_->Send({&worker.name, 1}, Text("ask")).ok());
  ASSERT_EQ(Take(worker), "ask");
  std::vector<std::string> said = {"before"};
  for (int i = 0; i < 50; ++i) {
    const bool is_large = i % 3 == 1;
    said.push_back(is_large ? std::string(kLargeBytes, static_cast<char>('a' + i % 26))
                            : std::to_string(i));
    ASSERT_TRUE(worker.channel->Send(Text(said.back())).ok());
  }
  PeerName from;
  for (const std::string& text : said) {
    ASSERT_EQ(TakeFromWorkers(&from), text);
    ASSERT_EQ(from, worker.name);
  }
}

TEST_F(RingChannelsTest, AnswersForWhichThereIsNoRoomGoBySocket) {
  Worker worker = ConnectByRing();
  Exchange(worker);
  // Five times what the ring holds.
  const std::string text(10'000, 'x');
  const size_t count = 5 * kWorkerRings.answers * kRingWordBytes / text.size();
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(worker.channel->Send(Text(std::to_string(i) + text)).ok());
  }
  PeerName from;
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(TakeFromWorkers(&from), std::to_string(i) + text);
}

// Sockets are looked at less often then.
TEST_F(RingChannelsTest, WhereAllHaveRingsSocketsAreStillHeard) {
  std::vector<Worker> all;
  for (int i = 0; i < kSlots; ++i) all.push_back(ConnectByRing());
  for (Worker& worker : all) Exchange(worker);
  for (int round = 0; round < 3; ++round) {
    for (Worker& worker : all) {
      ASSERT_TRUE(worker.channel->Send(Large('a')).ok());
      PeerName from;
      ASSERT_EQ(TakeFromWorkers(&from), TextOf(Large('a')));
      ASSERT_EQ(from, worker.name);
      ASSERT_TRUE(server_->Send({&worker.name, 1}, Large('b')).ok());
      ASSERT_EQ(Take(worker), TextOf(Large('b')));
    }
  }
}

TEST_F(RingChannelsTest, WhatIsSaidToASlowWorkerWaitsAndArrives) {
  Worker slow = ConnectByRing();
  Worker quick = ConnectByRing();
  const std::vector<PeerName> both = {slow.name, quick.name};
  const std::string text(100'000, 'y');
  const size_t count = 3 * kWorkerRings.broadcast * kRingWordBytes / text.size();
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(server_->Send(both, Text(std::to_string(i) + text)).ok());
  }
  // A worker that comes now is not told what was said before.
  Worker late = Connect();
  std::atomic<bool> quick_has_all{false};
  std::thread reading([&] {
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(Take(quick), std::to_string(i) + text);
    quick_has_all = true;
  });
  size_t read = 0;
  while (read < count || !quick_has_all) {
    Message message;
    // Writes what there is room for.
    (void)server_->HasInput();
    if (read < count && slow.channel->Receive(&message)) {
      EXPECT_EQ(TextOf(message), std::to_string(read++) + text);
    } else {
      std::this_thread::yield();
    }
  }
  reading.join();
  EXPECT_FALSE(late.channel->HasInput());
}

TEST_F(RingChannelsTest, AWorkerThatComesWhileTheRingIsFullMissesNothing) {
  Worker slow = ConnectByRing();
  const std::string text(100'000, 'y');
  const size_t count = kWorkerRings.broadcast * kRingWordBytes / text.size() + 5;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(server_->Send({&slow.name, 1}, Text(text)).ok());
  }
  Worker late = Connect();
  const std::optional<RingOffer> offer = server_->OfferTo(late.name);
  ASSERT_TRUE(offer.has_value());
  std::atomic<bool> has_asked{false};
  Status attached;
  std::thread asking([&] {
    attached = late.channel->Attach(*offer, Deadline::After(kLong));
    has_asked = true;
  });
  while (!has_asked) (void)server_->HasInput();
  asking.join();
  ASSERT_TRUE(attached.ok()) << attached;
  for (int i = 0; i < 10; ++i) (void)server_->HasInput();
  ASSERT_FALSE(server_->IsByRing(late.name)) << "it must not hear what was said before it came";
  EXPECT_TRUE(server_->IsHeldBack(slow.name) || slow.channel->HasInput());
  // There is room now, which the next message finds.
  size_t read = 0;
  Message message;
  while (slow.channel->Receive(&message)) ++read;
  ASSERT_GT(read, 5u);
  const std::vector<PeerName> both = {slow.name, late.name};
  for (const char* const said : {"first", "second"}) {
    ASSERT_TRUE(server_->Send(both, Text(said)).ok());
  }
  while (!server_->IsByRing(late.name)) (void)server_->HasInput();
  ASSERT_TRUE(server_->Send(both, Text("third")).ok());
  for (; read < count; ++read) ASSERT_EQ(Take(slow), text);
  for (const char* const said : {"first", "second", "third"}) {
    EXPECT_EQ(Take(slow), said);
    EXPECT_EQ(Take(late), said);
  }
  Exchange(late);
}

TEST_F(RingChannelsTest, AWorkerThatIsGivenUpHoldsNobodyBack) {
  Worker lost = ConnectByRing();
  Worker other = ConnectByRing();
  const std::string text(100'000, 'z');
  const size_t count = 2 * kWorkerRings.broadcast * kRingWordBytes / text.size();
  for (size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(server_->Send({lost.name, other.name}, Text(text)).ok());
  }
  server_->GiveUp(lost.name);
  EXPECT_FALSE(server_->IsByRing(lost.name));
  for (size_t i = 0; i < count; ++i) {
    Message message;
    while (!other.channel->Receive(&message)) (void)server_->HasInput();
    ASSERT_EQ(TextOf(message), text);
  }
  // Its slot is another's now, which begins where that one joined.
  Worker next = ConnectByRing();
  ASSERT_TRUE(server_->Send({other.name, next.name}, Text("on")).ok());
  EXPECT_EQ(Take(other), "on");
  EXPECT_EQ(Take(next), "on");
  Exchange(next);
}

TEST_F(RingChannelsTest, AWorkerThatEndsIsLetGo) {
  Worker ends = ConnectByRing();
  Worker stays = ConnectByRing();
  ends.channel.reset();
  while (server_->IsByRing(ends.name)) {
    (void)server_->HasInput();
    std::this_thread::yield();
  }
  Exchange(stays);
  EXPECT_TRUE(server_->TakeBroken().empty());
}

TEST_F(RingChannelsTest, WhatAWorkerSaysLastArrivesAfterItsEnd) {
  Worker worker = ConnectByRing();
  Exchange(worker);
  ASSERT_TRUE(worker.channel->Send(Text("I end")).ok());
  ASSERT_TRUE(worker.channel->Send(Text("for a reason")).ok());
  worker.channel.reset();
  PeerName from;
  EXPECT_EQ(TakeFromWorkers(&from), "I end");
  EXPECT_EQ(TakeFromWorkers(&from), "for a reason");
  Message message;
  while (server_->IsByRing(worker.name)) ASSERT_FALSE(server_->Receive(&from, &message));
}

TEST_F(RingChannelsTest, WhatTheControllerSaysLastArrivesAfterItsMemoryIsGone) {
  Worker worker = ConnectByRing();
  Exchange(worker);
  ASSERT_TRUE(server_->Send({&worker.name, 1}, Text("by ring")).ok());
  ASSERT_TRUE(server_->Send({&worker.name, 1}, Large('e')).ok());
  server_.reset();
  EXPECT_EQ(Take(worker), "by ring");
  EXPECT_EQ(Take(worker), std::string(kLargeBytes, 'e'));
}

}  // namespace
}  // namespace lockstep::control
