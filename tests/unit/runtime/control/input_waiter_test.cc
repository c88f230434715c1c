#include "runtime/control/input_waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "runtime/control/zmq/zmq_channel.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 20s;

// Never has input, and counts how often that is asked.
class SilentChannel final : public Channel {
 public:
  bool HasInput() override {
    ++looks_;
    return false;
  }
  int wait_fd() const override { return never_.fd(); }
  bool drained() const override { return false; }
  int TakeLooks() { return std::exchange(looks_, 0); }

 private:
  WakeUp never_;
  int looks_ = 0;
};

// A server and a client inside this process.
struct Pair {
  explicit Pair(const std::string& name) {
    server = std::move(*ZmqListen(context, "inproc://input_waiter_test-" + name));
    client = std::move(*ZmqConnect(context, server->endpoint()));
  }
  void Send() { ASSERT_TRUE(client->Send({Frame::Copy("x", 1)}).ok()); }
  bool Take() {
    PeerName from;
    Message message;
    return server->Receive(&from, &message);
  }

  std::shared_ptr<ZmqContext> context = ZmqContext::Create();
  std::unique_ptr<ServerChannel> server;
  std::unique_ptr<ClientChannel> client;
};

class InputWaiterTest : public testing::TestWithParam<std::chrono::microseconds> {};

TEST_P(InputWaiterTest, InputThatIsThereIsSeenAtOnce) {
  Pair pair("there");
  pair.Send();
  InputWaiter waiter(GetParam());
  Channel* const channels[] = {pair.server.get()};
  EXPECT_TRUE(waiter.Wait(channels, {}, Deadline::After(kLong)));
  EXPECT_TRUE(pair.Take());
}

TEST_P(InputWaiterTest, NothingEndsAtTheDeadline) {
  Pair pair("nothing");
  InputWaiter waiter(GetParam());
  Channel* const channels[] = {pair.server.get()};
  const auto begin = Deadline::Clock::now();
  EXPECT_FALSE(waiter.Wait(channels, {}, Deadline::After(20ms)));
  EXPECT_GE(Deadline::Clock::now() - begin, 20ms);
  EXPECT_FALSE(waiter.Wait(channels, {}, Deadline::After(0ms)));
}

TEST_P(InputWaiterTest, MessagesFromAnotherThreadAllWakeTheWaiter) {
  Pair pair("stream");
  constexpr int kMessages = 300;
  std::atomic<int> taken{0};
  std::thread sender([&] {
    for (int i = 0; i < kMessages; ++i) {
      // One at a time, so that the waiter goes to sleep in between.
      while (taken.load() < i) std::this_thread::yield();
      pair.Send();
    }
  });
  InputWaiter waiter(GetParam());
  Channel* const channels[] = {pair.server.get()};
  while (taken < kMessages) {
    const bool came = waiter.Wait(channels, {}, Deadline::After(kLong));
    EXPECT_TRUE(came);
    if (!came) break;
    while (pair.Take()) ++taken;
  }
  taken = kMessages;
  sender.join();
}

TEST_P(InputWaiterTest, AnyOfSeveralChannelsWakes) {
  Pair a("a");
  Pair b("b");
  InputWaiter waiter(GetParam());
  Channel* const channels[] = {a.server.get(), b.server.get()};
  std::thread sender([&] { b.Send(); });
  EXPECT_TRUE(waiter.Wait(channels, {}, Deadline::After(kLong)));
  sender.join();
  EXPECT_FALSE(a.Take());
  EXPECT_TRUE(b.Take());
}

TEST_P(InputWaiterTest, SignalOfAnotherThreadWakes) {
  Pair pair("signal");
  WakeUp wake_up;
  InputWaiter waiter(GetParam());
  Channel* const channels[] = {pair.server.get()};
  const int descriptors[] = {wake_up.fd()};
  std::thread signaller([&] { wake_up.Signal(); });
  EXPECT_TRUE(waiter.Wait(channels, descriptors, Deadline::After(kLong)));
  signaller.join();
  // It stays until it is cleared.
  EXPECT_TRUE(waiter.Wait(channels, descriptors, Deadline::After(kLong)));
  wake_up.Clear();
  EXPECT_FALSE(waiter.Wait(channels, descriptors, Deadline::After(1ms)));
}

// Services wake up for their timers a few times a second.
TEST(InputWaiterAwakeTest, AfterAWaitForNothingTheNextSleepsAtOnce) {
  constexpr int kMostOfOneSleep = 3;
  bool stayed_awake = false;
  // Where other work wants the processor, a wait may sleep at once for that.
  for (int i = 0; i < 200 && !stayed_awake; ++i) {
    SilentChannel channel;
    InputWaiter waiter(5ms);
    Channel* const channels[] = {&channel};
    WakeUp wake_up;
    const int descriptors[] = {wake_up.fd()};
    const auto looks_of = [&](std::chrono::milliseconds time) {
      (void)waiter.Wait(channels, descriptors, Deadline::After(time));
      return channel.TakeLooks();
    };
    const int first = looks_of(2ms);
    EXPECT_LE(looks_of(2ms), kMostOfOneSleep);
    EXPECT_LE(looks_of(2ms), kMostOfOneSleep);
    wake_up.Signal();
    EXPECT_LE(looks_of(1min), kMostOfOneSleep);
    wake_up.Clear();
    (void)looks_of(0ms);  // a look is no wait
    stayed_awake = first > kMostOfOneSleep && looks_of(2ms) > kMostOfOneSleep;
  }
  EXPECT_TRUE(stayed_awake);
}

INSTANTIATE_TEST_SUITE_P(PollBeforeSleep, InputWaiterTest, testing::Values(0us, 200us, 5000us),
                         [](const auto& info) {
                           return std::to_string(info.param.count()) + "us";
                         });

class CrowdTest : public testing::Test {
 protected:
  // How long after a long yield none is tried, in steps of what passes between two waits.
  std::chrono::nanoseconds AfterALongYield(std::chrono::microseconds between_waits) {
    const auto begin = now_;
    crowd_.NoteLongYield(now_);
    do now_ += between_waits;
    while (crowd_.Lasts(now_));
    crowd_.NoteWait();
    return now_ - begin;
  }
  void ManyShortWaits() {
    for (int i = 0; i < 100; ++i) crowd_.NoteWait();
  }

  Crowd crowd_;
  Crowd::Clock::time_point now_{1h};
};

TEST_F(CrowdTest, ALongYieldNowAndThenIsForgottenSoon) {
  EXPECT_FALSE(crowd_.Lasts(now_));
  for (int i = 0; i < 10; ++i) {
    const auto asleep = AfterALongYield(100us);
    EXPECT_GE(asleep, 3ms);
    EXPECT_LE(asleep, 5ms);
    ManyShortWaits();
  }
}

// Also where long passes between two waits, as in a program that computes in between.
TEST_F(CrowdTest, WhereEachTryTakesLongItIsTriedLessAndLess) {
  for (const auto between_waits :
       {std::chrono::microseconds(100), std::chrono::microseconds(10'000)}) {
    EXPECT_FALSE(crowd_.Lasts(now_));
    const auto first = AfterALongYield(between_waits);
    for (int i = 0; i < 10; ++i) (void)AfterALongYield(between_waits);
    const auto longest = AfterALongYield(between_waits);
    EXPECT_GT(longest, 5 * first);
    EXPECT_GE(longest, 100ms);
    EXPECT_LE(longest, 200ms);
    ManyShortWaits();
  }
}

TEST(WakeUpTest, ManySignalsNeedOneClear) {
  WakeUp wake_up;
  for (int i = 0; i < 1000; ++i) wake_up.Signal();
  wake_up.Clear();
  InputWaiter waiter(0us);
  const int descriptors[] = {wake_up.fd()};
  EXPECT_FALSE(waiter.Wait({}, descriptors, Deadline::After(1ms)));
  wake_up.Clear();  // does not block
}

}  // namespace
}  // namespace lockstep::control
