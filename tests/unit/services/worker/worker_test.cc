// A worker alone with a controller made by hand: what only happens while it joins.
#include "services/worker/worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/control/host.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/control.capnp.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kLong = 20s;

class WorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    commands_ = Listen();
    liveness_ = Listen();
    options_.controller_endpoint = commands_->endpoint();
    options_.bulk_endpoint = "inproc://bulk-" + control::RandomHex(6);
    options_.arena_bytes = size_t{64} << 20;
    // Longer than the test may take: ending in time is what is tested.
    options_.join_timeout = 1h;
    options_.controller_timeout = 1h;
    auto worker = Worker::Start(options_, context_);
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }

  std::unique_ptr<control::ServerChannel> Listen() {
    return *control::ZmqListen(context_, "inproc://worker-" + control::RandomHex(6));
  }
  // The next message; who sent it is kept in worker_name_.
  control::Message Next(control::ServerChannel& channel) {
    control::InputWaiter waiter(0us);
    control::Channel* const channels[] = {&channel};
    control::Message message;
    EXPECT_TRUE(waiter.Wait(channels, {}, Deadline::After(kLong)));
    EXPECT_TRUE(channel.Receive(&worker_name_, &message));
    return message;
  }
  // Welcomes the worker as rank 0; the arenas of the other ranks are `others`.
  void Welcome(const std::vector<std::string>& others) {
    std::string own;
    ASSERT_TRUE(control::DecodeMessage<wire::WorkerMessage>(
                    Next(*commands_).at(0),
                    [&](wire::WorkerMessage::Reader reader) {
                      own = control::ToString(reader.getHello().getSegment());
                      return OkStatus();
                    })
                    .ok());
    const control::Frame frame =
        control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder envelope) {
          auto welcome = envelope.initWelcome();
          auto peers = welcome.initPeers(static_cast<unsigned>(others.size() + 1));
          peers[0].setSegment(own);
          for (unsigned i = 0; i < others.size(); ++i) peers[i + 1].setSegment(others[i]);
          welcome.setLivenessEndpoint(liveness_->endpoint());
          welcome.setHeartbeatMillis(50);
          welcome.setFlowWindowBytes(1 << 20);
          welcome.setCollectiveTimeoutMillis(20'000);
        });
    ASSERT_TRUE(commands_->Send({&worker_name_, 1}, {frame}).ok());
  }
  // Returns when it has begun to connect: its heartbeats begin before.
  void AwaitHeartbeat() { Next(*liveness_); }
  static std::string NewName() {
    return std::string(SharedSegment::kNamePrefix) + "worker-test-" + control::RandomHex(8);
  }

  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<control::ServerChannel> commands_;
  std::unique_ptr<control::ServerChannel> liveness_;
  control::PeerName worker_name_;
  WorkerOptions options_;
  std::unique_ptr<Worker> worker_;
};

// A peer that joined and has not come to connect, because it is slow.
TEST_F(WorkerTest, StopEndsTheWaitForPeers) {
  const auto peer = tensor::Arena::Create({.name = NewName(), .capacity_bytes = 16 << 20});
  ASSERT_TRUE(peer.ok()) << peer.status();
  Welcome({(*peer)->name()});
  AwaitHeartbeat();
  EXPECT_EQ(worker_->Wait(Deadline::After(0s)).code(), StatusCode::kDeadlineExceeded);
  worker_->RequestStop("the test says so");
  EXPECT_EQ(worker_->Wait(Deadline::After(kLong)), OkStatus());
}

TEST_F(WorkerTest, StopEndsTheWaitForTheControllersSignOfLife) {
  Welcome({});
  AwaitHeartbeat();
  worker_->RequestStop("the test says so");
  EXPECT_EQ(worker_->Wait(Deadline::After(kLong)), OkStatus());
}

TEST_F(WorkerTest, PeerThatEndedSinceItJoinedIsNotWaitedFor) {
  Welcome({NewName()});
  const Status status = worker_->Wait(Deadline::After(kLong));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 1: ended"));
}

}  // namespace
}  // namespace lockstep::worker
