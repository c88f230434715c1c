// Clients in the controller's process turn its loop: nothing that comes is missed, whoever looks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/control/direct/direct_client_channel.h"
#include "runtime/control/direct/direct_door.h"
#include "runtime/control/direct/direct_server_channel.h"
#include "runtime/control/direct/shared_loop.h"
#include "runtime/control/input_waiter.h"

namespace lockstep::control {
namespace {

using std::chrono::hours;

Message Say(const std::string& text) { return {Frame::Copy(text.data(), text.size())}; }
std::string Heard(const Message& message) {
  return std::string(reinterpret_cast<const char*>(message[0].data()), message[0].size());
}
bool IsReadable(int fd) {
  pollfd set = {fd, POLLIN, 0};
  return poll(&set, 1, 0) == 1;
}

// Peers that are not in this process, by memory: they wake whoever sleeps, and nobody else.
class FakePeers final : public ServerChannel {
 public:
  bool HasInput() override {
    ++asked_system;
    return !said.empty();
  }
  bool HasInputAtHand() override { return !said.empty(); }
  int wait_fd() const override { return wake_up_.fd(); }
  bool drained() const override { return false; }
  void BeginSleep() override { sleeps = true; }
  void EndSleep() override {
    sleeps = false;
    wake_up_.Clear();
  }
  void CancelSleep() override { sleeps = false; }
  const std::string& endpoint() const override { return endpoint_; }
  Status Send(absl::Span<const PeerName> peers, const Message& message) override {
    for (const PeerName& peer : peers) told.push_back(peer + ": " + Heard(message));
    return OkStatus();
  }
  bool Receive(PeerName* from, Message* message) override {
    if (said.empty()) return false;
    *from = "peer";
    *message = Say(said.front());
    said.pop_front();
    return true;
  }

  // With the loop's lock held, as all of this.
  void Answer(const std::string& text) {
    said.push_back(text);
    if (sleeps) wake_up_.Signal();
  }

  std::deque<std::string> said;
  std::vector<std::string> told;
  bool sleeps = false;
  int asked_system = 0;

 private:
  const std::string endpoint_ = "fake";
  WakeUp wake_up_;
};

// A loop that answers each client with what it has said, or by way of a peer: "ask" to the peer,
// whose answer goes to the client that has asked last.
class DirectTest : public testing::Test {
 protected:
  DirectTest() {
    auto peers = std::make_unique<FakePeers>();
    peers_ = peers.get();
    clients_ = std::make_unique<DirectServerChannel>(std::move(peers), 3);
    door_ = std::make_shared<DirectDoor>(clients_.get());
    SharedLoop::Work work;
    work.turn = [this] { return Turn(); };
    work.next_turn = [this] { return next_turn_; };
    work.by_memory = [] { return true; };
    door_->loop.Open({clients_.get()}, wake_up_, std::move(work));
  }

  bool Turn() {
    ++turns_;
    PeerName from;
    Message message;
    if (!clients_->Receive(&from, &message)) return false;
    if (from == "peer") {
      (void)clients_->Send({&asked_, 1}, message);
    } else if (Heard(message) == "ask") {
      asked_ = from;
    } else {
      (void)clients_->Send({&from, 1}, message);
    }
    return true;
  }
  // As the loop's own thread does.
  void FallAsleep() {
    const auto lock = door_->loop.Lock();
    door_->loop.BeginSleep(next_turn_);
  }
  void Close() {
    const auto lock = door_->loop.Lock();
    door_->loop.Close();
  }
  void PeerAnswers(const std::string& text) {
    const auto lock = door_->loop.Lock();
    peers_->Answer(text);
  }
  std::unique_ptr<ClientChannel> Connect() { return *DirectClientChannel::Connect(door_); }
  bool OwnThreadIsCalled() const { return IsReadable(wake_up_.fd()); }

  FakePeers* peers_ = nullptr;
  std::unique_ptr<DirectServerChannel> clients_;
  std::shared_ptr<DirectDoor> door_;
  WakeUp wake_up_;
  Deadline next_turn_ = Deadline::After(hours(1));
  PeerName asked_;
  int turns_ = 0;
};

TEST_F(DirectTest, WhatIsSentIsDoneWhenSendReturns) {
  FallAsleep();
  const auto client = Connect();
  ASSERT_TRUE(client->Send(Say("hello")).ok());
  Message answer;
  ASSERT_TRUE(client->Receive(&answer));
  EXPECT_EQ(Heard(answer), "hello");
  EXPECT_FALSE(client->Receive(&answer));
  EXPECT_FALSE(OwnThreadIsCalled());
}

TEST_F(DirectTest, WhoLooksTurnsTheLoopAndIsNotWoken) {
  FallAsleep();
  const auto client = Connect();
  client->BeginLooking();
  ASSERT_TRUE(client->Send(Say("ask")).ok());
  Message answer;
  EXPECT_FALSE(client->Receive(&answer));
  EXPECT_FALSE(peers_->sleeps);
  PeerAnswers("yes");
  // Peers of this channel are asked now and then only.
  bool has_come = false;
  for (int i = 0; i < 100 && !has_come; ++i) has_come = client->Receive(&answer);
  ASSERT_TRUE(has_come);
  EXPECT_EQ(Heard(answer), "yes");
  client->EndLooking();
  EXPECT_FALSE(OwnThreadIsCalled());
  EXPECT_TRUE(peers_->sleeps);
}

TEST_F(DirectTest, WhatComesAsTheLastOneStopsLookingIsTheOwnThreads) {
  FallAsleep();
  const auto first = Connect();
  const auto second = Connect();
  first->BeginLooking();
  second->BeginLooking();
  PeerAnswers("for nobody who looks");
  first->EndLooking();
  EXPECT_FALSE(OwnThreadIsCalled()) << "the second one looks yet";
  second->EndLooking();
  EXPECT_TRUE(OwnThreadIsCalled());
  {
    const auto lock = door_->loop.Lock();
    EXPECT_TRUE(door_->loop.EndSleep());
  }
  EXPECT_FALSE(OwnThreadIsCalled()) << "it must not be called twice for the same";
}

TEST_F(DirectTest, WhoSleepsIsWokenAndDoesNotLook) {
  FallAsleep();
  const auto client = Connect();
  client->BeginLooking();
  client->BeginSleep();
  EXPECT_TRUE(peers_->sleeps) << "peers are to wake the loop's own thread";
  EXPECT_FALSE(IsReadable(client->wait_fd()));
  const PeerName only("\0direct 1", 9);
  {
    const auto lock = door_->loop.Lock();
    ASSERT_TRUE(clients_->Send({&only, 1}, Say("wake up")).ok());
  }
  EXPECT_TRUE(IsReadable(client->wait_fd()));
  client->EndSleep();
  EXPECT_FALSE(IsReadable(client->wait_fd()));
  EXPECT_FALSE(peers_->sleeps);
  Message answer;
  EXPECT_TRUE(client->Receive(&answer));
  client->EndLooking();
}

TEST_F(DirectTest, ATimerThatIsEarlierCallsTheOwnThread) {
  FallAsleep();
  const auto client = Connect();
  EXPECT_FALSE(OwnThreadIsCalled());
  next_turn_ = Deadline::After(hours(0));
  ASSERT_TRUE(client->Send(Say("sooner")).ok());
  EXPECT_TRUE(OwnThreadIsCalled());
}

TEST_F(DirectTest, TheOwnThreadSleepsUntilATimerThatOthersHaveMadeEarlier) {
  const Deadline asked_before = Deadline::After(hours(2));
  const auto lock = door_->loop.Lock();
  EXPECT_EQ(door_->loop.BeginSleep(asked_before).when(), next_turn_.when());
  EXPECT_FALSE(door_->loop.EndSleep());
}

TEST_F(DirectTest, AClientThatDoesNotReadLosesWhatIsTooMuch) {
  const auto client = Connect();
  for (const char* text : {"1", "2", "3", "4"}) ASSERT_TRUE(client->Send(Say(text)).ok());
  Message answer;
  std::string heard;
  while (client->Receive(&answer)) heard += Heard(answer);
  EXPECT_EQ(heard, "123");
}

TEST_F(DirectTest, OthersAreHeardAndToldAsBefore) {
  const auto client = Connect();
  const PeerName stranger = "of another process";
  {
    const auto lock = door_->loop.Lock();
    ASSERT_TRUE(clients_->Send({&stranger, 1}, Say("hello")).ok());
  }
  EXPECT_THAT(peers_->told, testing::ElementsAre("of another process: hello"));
  EXPECT_EQ(clients_->sender(), nullptr);
  // A client that always has something to say does not keep them out.
  PeerAnswers("never heard?");
  asked_ = stranger;
  for (int i = 0; i < 100 && peers_->told.size() < 2; ++i) {
    ASSERT_TRUE(client->Send(Say("more")).ok());
  }
  EXPECT_THAT(peers_->told, testing::Contains("of another process: never heard?"));
}

TEST_F(DirectTest, AnEndedControllerSaysSo) {
  const auto client = Connect();
  ASSERT_TRUE(client->Send(Say("before")).ok());
  Close();
  EXPECT_EQ(client->Send(Say("after")).code(), StatusCode::kUnavailable);
  EXPECT_EQ(DirectClientChannel::Connect(door_).status().code(), StatusCode::kUnavailable);
  Message answer;
  ASSERT_TRUE(client->Receive(&answer)) << "what it has said last is read yet";
  EXPECT_EQ(Heard(answer), "before");
  client->BeginLooking();
  EXPECT_FALSE(client->Receive(&answer));
  client->EndLooking();
}

TEST_F(DirectTest, ADoorIsFoundInItsSpaceUntilItsOwnerLetsItGo) {
  const int space = 0;
  const int other_space = 0;
  PublishDoor(&space, "inproc://a", door_);
  EXPECT_EQ(FindDoor(&space, "inproc://a"), door_);
  EXPECT_EQ(FindDoor(&space, "inproc://b"), nullptr);
  EXPECT_EQ(FindDoor(&other_space, "inproc://a"), nullptr);
  door_.reset();
  EXPECT_EQ(FindDoor(&space, "inproc://a"), nullptr);
}

// What has woken the loop's own thread is for that thread to take: another one asks the system
// nothing when it begins to look, and when it is about to go.
TEST_F(DirectTest, WhoBeginsToLookLeavesAWakeUpToWhomItIsFor) {
  const auto client = Connect();
  FallAsleep();
  PeerAnswers("for nobody");
  const int asked_before = peers_->asked_system;
  client->BeginLooking();
  EXPECT_FALSE(peers_->sleeps);
  EXPECT_TRUE(IsReadable(peers_->wait_fd()));
  client->EndLooking();
  EXPECT_TRUE(peers_->sleeps);
  EXPECT_TRUE(OwnThreadIsCalled()) << "what it has said is at hand";
  EXPECT_EQ(peers_->asked_system, asked_before);
  const auto lock = door_->loop.Lock();
  door_->loop.EndSleep();
  EXPECT_FALSE(IsReadable(peers_->wait_fd()));
}

// A thread that looks turns the loop again and again, and need not when it has just sent.
TEST_F(DirectTest, WhoLooksTurnsOnceForWhatItSays) {
  FallAsleep();
  const auto client = Connect();
  const auto turns_of = [&](const std::function<void()>& what) {
    const int before = turns_;
    what();
    return turns_ - before;
  };
  Message answer;
  const auto send = [&] { ASSERT_TRUE(client->Send(Say("hello")).ok()); };
  EXPECT_GT(turns_of(send), 1) << "until nothing is left to do";
  EXPECT_EQ(turns_of([&] { EXPECT_TRUE(client->Receive(&answer)); }), 0);
  client->BeginLooking();
  EXPECT_EQ(turns_of(send), 1);
  EXPECT_EQ(turns_of([&] { EXPECT_TRUE(client->Receive(&answer)); }), 0);
  EXPECT_EQ(turns_of([&] { EXPECT_FALSE(client->Receive(&answer)); }), 1);
  client->EndLooking();
}

// Clients that look, sleep and send at the same time as the loop's own thread and a peer: each
// gets each of its answers.
TEST_F(DirectTest, NothingIsMissedByManyThreads) {
  constexpr int kClients = 3;
  constexpr int kMessages = 300;
  std::atomic<bool> is_over{false};
  std::thread own([&] {
    InputWaiter waiter{std::chrono::microseconds(20)};
    Channel* const channels[] = {clients_.get()};
    const int descriptors[] = {wake_up_.fd()};
    const auto lock = door_->loop.Lock();
    while (!is_over) {
      if (!Turn()) waiter.Wait(channels, descriptors, Deadline::After(hours(1)), &door_->loop);
    }
  });
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([this, i] {
      const auto channel = Connect();
      for (int n = 0; n < kMessages; ++n) {
        const bool looks = (n + i) % 3 != 0;
        if (looks) channel->BeginLooking();
        const std::string text = std::to_string(n);
        ASSERT_TRUE(channel->Send(Say(text)).ok());
        PeerAnswers("to whoever asked");
        Message answer;
        while (true) {
          if (channel->Receive(&answer)) {
            if (Heard(answer) == text) break;
            continue;
          }
          channel->BeginSleep();
          pollfd set = {channel->wait_fd(), POLLIN, 0};
          const bool must_sleep = !channel->HasInput();
          const int readable = must_sleep ? poll(&set, 1, 60'000) : 1;
          ASSERT_EQ(readable, 1) << "it was not woken";
          channel->EndSleep();
        }
        if (looks) channel->EndLooking();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  // What has come last is the own thread's.
  const auto has_unread = [this] {
    const auto lock = door_->loop.Lock();
    return !peers_->said.empty();
  };
  const Deadline patience = Deadline::After(std::chrono::minutes(1));
  while (has_unread() && !patience.Expired()) std::this_thread::yield();
  EXPECT_FALSE(has_unread());
  is_over = true;
  wake_up_.Signal();
  own.join();
}

}  // namespace
}  // namespace lockstep::control
