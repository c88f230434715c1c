// A worker alone with a controller made by hand: what only happens while it connects.
#include "services/worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/control.capnp.h"
#include "tests/support/patience.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    commands_ = Listen();
    liveness_ = Listen();
    options_.controller_endpoint = commands_->endpoint();
    options_.bulk_endpoint = "inproc://bulk-" + RandomHex(6);
    options_.arena_bytes = size_t{64} << 20;
    // Longer than the test may take: ending in time is what is tested.
    options_.join_timeout = 1h;
    options_.controller_timeout = 1h;
    auto worker = Worker::Start(options_, context_);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }

  std::unique_ptr<control::ServerChannel> Listen() {
    return *control::ZmqListen(context_, "inproc://worker-" + RandomHex(6));
  }
  // The next message; `from` becomes who sent it.
  control::Message Next(control::ServerChannel& channel, control::PeerName* from) {
    control::InputWaiter waiter(0us);
    control::Channel* const channels[] = {&channel};
    control::Message message;
    EXPECT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
    EXPECT_TRUE(channel.Receive(from, &message));
    return message;
  }
  // What the worker says next on its command socket.
  template <typename Read>
  void NextFromWorker(Read read) {
    ASSERT_TRUE(
        control::DecodeMessage<wire::WorkerMessage>(Next(*commands_, &worker_name_).at(0),
                                                    [&](wire::WorkerMessage::Reader reader) {
                                                      read(reader);
                                                      return OkStatus();
                                                    })
            .ok());
  }
  void AwaitHello() {
    NextFromWorker([&](wire::WorkerMessage::Reader reader) {
      own_ = control::ToString(reader.getHello().getSegment());
    });
  }
  // Hellos that are said again meanwhile are passed over.
  void ExpectReady(uint64_t epoch) {
    bool ready = false;
    while (!ready && !HasFatalFailure()) {
      NextFromWorker([&](wire::WorkerMessage::Reader reader) {
        ready = reader.isReady();
        ASSERT_TRUE(ready || reader.isHello());
        if (!ready) return;
        EXPECT_EQ(reader.getReady().getEpoch(), epoch);
      });
    }
  }
  // Welcomes the worker as rank 0; the arenas of the other ranks are `others`.
  void Welcome(const std::vector<std::string>& others, uint64_t epoch = 1,
               uint64_t controller = 1) {
    const control::Frame welcoming =
        control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder envelope) {
          envelope.setEpoch(epoch);
          auto welcome = envelope.initWelcome();
          welcome.setController(controller);
          welcome.setLivenessEndpoint(liveness_->endpoint());
          welcome.setHeartbeatMillis(50);
          welcome.setFlowWindowBytes(1 << 20);
          welcome.setCollectiveTimeoutMillis(20'000);
        });
    const control::Frame arenas =
        control::EncodeMessage<wire::Arenas>([&](wire::Arenas::Builder builder) {
          auto segments = builder.initSegments(static_cast<unsigned>(others.size() + 1));
          segments.set(0, own_);
          for (unsigned i = 0; i < others.size(); ++i) segments.set(i + 1, others[i]);
        });
    ASSERT_TRUE(commands_->Send({&worker_name_, 1}, {welcoming, arenas}).ok());
  }
  void AwaitHeartbeat() { Next(*liveness_, &liveness_name_); }
  void SayOnLiveness(const std::function<void(wire::LivenessMessage::Builder)>& fill,
                     const control::Message& further_frames = {}) {
    control::Message message = {control::EncodeMessage<wire::LivenessMessage>(fill)};
    message.insert(message.end(), further_frames.begin(), further_frames.end());
    ASSERT_TRUE(liveness_->Send({&liveness_name_, 1}, message).ok());
  }
  // Answers its first heartbeat: it connects now.
  void Greet(uint64_t controller = 1) {
    AwaitHeartbeat();
    SayOnLiveness([&](auto message) { message.initHeartbeat().setController(controller); });
  }
  // The ranks' first exchange, of two of them, in which they tell who reaches whom.
  uint64_t AwaitExchange() {
    uint64_t number = 0;
    while (number == 0 && !HasFatalFailure()) {
      (void)control::DecodeMessage<wire::LivenessMessage>(
          Next(*liveness_, &liveness_name_).at(0), [&](wire::LivenessMessage::Reader reader) {
            if (reader.isExchange()) number = reader.getExchange().getNumber();
            return OkStatus();
          });
    }
    return number;
  }
  void SayAllReachEachOther(uint64_t exchange) {
    const control::Frame offered =
        control::EncodeMessage<wire::OfferList>([](wire::OfferList::Builder list) {
          auto offers = list.initOffers(2);
          for (unsigned i = 0; i < 2; ++i) offers.set(i, kj::StringPtr("0-1 -1 ").asBytes());
        });
    SayOnLiveness([&](auto message) { message.initExchanged().setNumber(exchange); }, {offered});
  }
  static std::string NewName() {
    return std::string(SharedSegment::kNamePrefix) + "worker-test-" + RandomHex(8);
  }

  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<control::ServerChannel> commands_;
  std::unique_ptr<control::ServerChannel> liveness_;
  control::PeerName worker_name_;
  control::PeerName liveness_name_;
  std::string own_;  // the worker's arena
  WorkerOptions options_;
  std::unique_ptr<Worker> worker_;
};

// A peer that joined and has not come to connect, because it is slow.
TEST_F(WorkerTest, StopEndsTheWaitForPeers) {
  const auto peer = tensor::Arena::Create({.name = NewName(), .capacity_bytes = 16 << 20});
  ASSERT_TRUE(peer.ok()) << peer.status();
  AwaitHello();
  Welcome({(*peer)->name()});
  Greet();
  EXPECT_EQ(worker_->Wait(Deadline::After(0s)).code(), StatusCode::kDeadlineExceeded);
  worker_->RequestStop("the test says so");
  EXPECT_EQ(worker_->Wait(Deadline::After(support::kLong)), OkStatus());
}

TEST_F(WorkerTest, StopEndsTheWaitForTheControllersSignOfLife) {
  AwaitHello();
  Welcome({});
  AwaitHeartbeat();
  worker_->RequestStop("the test says so");
  EXPECT_EQ(worker_->Wait(Deadline::After(support::kLong)), OkStatus());
}

// It is to be replaced: what counts is the next welcome.
TEST_F(WorkerTest, WorkerConnectsAnewWithWhoeverReplacesOneThatEnded) {
  auto peer = tensor::Arena::Create({.name = NewName(), .capacity_bytes = 16 << 20});
  ASSERT_TRUE(peer.ok()) << peer.status();
  AwaitHello();
  Welcome({(*peer)->name()});
  Greet();
  const uint64_t exchange = AwaitExchange();
  peer->reset();
  SayAllReachEachOther(exchange);
  // It asks how the other one is getting on, and hears from the controller that it has ended.
  EXPECT_NE(AwaitExchange(), exchange);
  SayOnLiveness([](auto message) { message.setBroken(1); });
  Welcome({}, 2);
  ExpectReady(2);
}

TEST_F(WorkerTest, BrokenWorldIsNotWaitedFor) {
  const auto peer = tensor::Arena::Create({.name = NewName(), .capacity_bytes = 16 << 20});
  ASSERT_TRUE(peer.ok()) << peer.status();
  AwaitHello();
  Welcome({(*peer)->name()});
  Greet();
  SayOnLiveness([](auto message) { message.setBroken(1); });
  Welcome({}, 2);
  ExpectReady(2);
}

// The news travels on another socket, and may be faster than the welcome.
TEST_F(WorkerTest, WorldThatWasBrokenBeforeItsWelcomeCameIsNotConnected) {
  const auto peer = tensor::Arena::Create({.name = NewName(), .capacity_bytes = 16 << 20});
  ASSERT_TRUE(peer.ok()) << peer.status();
  AwaitHello();
  Welcome({});
  Greet();
  ExpectReady(1);
  SayOnLiveness([](auto message) { message.setBroken(2); });
  AwaitHeartbeat();
  AwaitHeartbeat();
  Welcome({(*peer)->name()}, 2);
  Welcome({}, 3);
  ExpectReady(3);
}

// The clock was set back before it was started: its epochs are smaller.
TEST_F(WorkerTest, WorldsThatAnotherControllerHasBrokenDoNotCount) {
  auto peer = tensor::Arena::Create({.name = NewName(), .capacity_bytes = 16 << 20});
  ASSERT_TRUE(peer.ok()) << peer.status();
  AwaitHello();
  Welcome({}, 7);
  Greet();
  ExpectReady(7);
  SayOnLiveness([](auto message) { message.setBroken(9); });
  AwaitHeartbeat();
  SayOnLiveness([](auto message) { message.initHeartbeat().setController(2); });
  AwaitHello();
  Welcome({(*peer)->name()}, 8, 2);
  // It greets the other controller, and goes on to ask how its peer is getting on.
  bool is_greeted = false;
  int asked = 0;
  const Deadline deadline = Deadline::After(support::kLong);
  while (asked < 3 && !deadline.Expired()) {
    (void)control::DecodeMessage<wire::LivenessMessage>(
        Next(*liveness_, &liveness_name_).at(0), [&](wire::LivenessMessage::Reader reader) {
          // One that has given up says so with an exchange without members.
          if (reader.isExchange() && reader.getExchange().getMembers().size() > 0) ++asked;
          const bool is_new = reader.isHeartbeat() && reader.getHeartbeat().getController() == 2;
          if (!is_new || std::exchange(is_greeted, true)) return OkStatus();
          SayOnLiveness([](auto message) { message.initHeartbeat().setController(2); });
          return OkStatus();
        });
  }
  EXPECT_EQ(asked, 3) << "it has given up";
}

TEST_F(WorkerTest, WelcomeOfAnEpochThatIsOverEndsTheWorker) {
  AwaitHello();
  Welcome({});
  Greet();
  ExpectReady(1);
  Welcome({}, 1);
  const Status status = worker_->Wait(Deadline::After(support::kLong));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("a welcome as rank 0 in epoch 1"));
}

}  // namespace
}  // namespace lockstep::worker
