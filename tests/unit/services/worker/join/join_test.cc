#include "services/worker/join/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/random.h"
#include "runtime/base/version.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/control.capnp.h"
#include "tests/support/patience.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class JoinTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = std::move(*control::ZmqListen(context_, "inproc://join-" + RandomHex(4)));
    client_ = std::move(*control::ZmqConnect(context_, server_->endpoint()));
    options_.controller_endpoint = server_->endpoint();
  }

  StatusOr<Membership> RunJoin(std::chrono::milliseconds patience = support::kLong) {
    return Join(*client_, options_, offer_, wake_up_.fd(), stopping_, patience, &sent_away_);
  }

  // Waits for the hello, looks at it, and answers.
  template <typename Look>
  void Answer(Look look, const control::Message& answer) {
    control::InputWaiter waiter(0us);
    control::Channel* const channels[] = {server_.get()};
    ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
    control::PeerName worker;
    control::Message message;
    ASSERT_TRUE(server_->Receive(&worker, &message));
    ASSERT_TRUE(
        control::DecodeMessage<wire::WorkerMessage>(message[0],
                                                    [&](wire::WorkerMessage::Reader reader) {
                                                      EXPECT_TRUE(reader.isHello());
                                                      look(reader.getHello());
                                                      return OkStatus();
                                                    })
            .ok());
    ASSERT_TRUE(server_->Send({&worker, 1}, answer).ok());
  }
  void Answer(const control::Message& answer) {
    Answer([](wire::Hello::Reader) {}, answer);
  }
  // Joins while the controller answers.
  StatusOr<Membership> JoinAnswered(const control::Message& answer) {
    std::thread controller([&] { Answer(answer); });
    StatusOr<Membership> membership = RunJoin();
    controller.join();
    return membership;
  }

  // An answer of one frame.
  template <typename Fill>
  static control::Message Say(Fill fill) {
    return {control::EncodeMessage<wire::Envelope>(fill)};
  }
  static control::Message Welcome(Rank rank, unsigned size) {
    control::Message message = Say([&](wire::Envelope::Builder envelope) {
      envelope.setEpoch(4);
      auto welcome = envelope.initWelcome();
      welcome.setRank(rank);
      welcome.setLivenessEndpoint("inproc://liveness");
      welcome.setHeartbeatMillis(250);
      welcome.setFlowWindowBytes(1000);
      welcome.setCollectiveTimeoutMillis(9000);
      welcome.setCluster("cluster");
    });
    message.push_back(control::EncodeMessage<wire::Arenas>([&](wire::Arenas::Builder arenas) {
      auto segments = arenas.initSegments(size);
      for (unsigned i = 0; i < size; ++i) segments.set(i, "segment " + std::to_string(i));
    }));
    return message;
  }

  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::unique_ptr<control::ServerChannel> server_;
  std::unique_ptr<control::ClientChannel> client_;
  WorkerOptions options_;
  std::optional<std::string> sent_away_;
  control::WakeUp wake_up_;
  Offer offer_{"lockstep-seg", "lockstep-seg-activity", "inproc://bulk", "lpk_bulk",
               "http://127.0.0.1:9464"};
  std::atomic<bool> stopping_{false};
};

// As where the controller's client port is taken for its worker port.
TEST_F(JoinTest, AnyOtherListenerThanAControllerIsAnErrorAtOnce) {
  std::thread stranger([&] {
    control::InputWaiter waiter(0us);
    control::Channel* const channels[] = {server_.get()};
    control::PeerName worker;
    control::Message message;
    if (!waiter.Wait(channels, {}, Deadline::After(support::kLong))) return;
    if (!server_->Receive(&worker, &message)) return;
    const std::optional<control::Frame> answer = control::AnswerToStranger(
        message[0], control::Protocol::kClientToController, control::Protocol::kControllerToClient,
        "the controller's worker port is tcp://controller:2");
    if (answer.has_value()) (void)server_->Send({&worker, 1}, {*answer});
  });
  const Status status = RunJoin().status();
  stranger.join();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)),
              testing::AllOf(testing::HasSubstr("a controller's client port of Lockstep "),
                             testing::HasSubstr(", not a controller's worker port"),
                             testing::HasSubstr("worker port is tcp://controller:2")));
}

TEST_F(JoinTest, HelloSaysWhoTheWorkerIsAndTheWelcomeWhereItIs) {
  options_.cluster = "wanted";
  options_.rank = 2;
  std::thread controller([&] {
    Answer(
        [](wire::Hello::Reader hello) {
          EXPECT_EQ(hello.getMinVersion(), kOldestWorkerProtocolVersion);
          EXPECT_EQ(hello.getMaxVersion(), kProtocolVersion);
          EXPECT_EQ(std::string(hello.getCluster().cStr()), "wanted");
          EXPECT_EQ(hello.getRank(), 2);
          EXPECT_EQ(hello.getPid(), getpid());
          EXPECT_EQ(std::string(hello.getHost().getId().cStr()), ThisHost().id);
          EXPECT_EQ(std::string(hello.getDevice().cStr()), "cpu:0");
          EXPECT_EQ(std::string(hello.getSegment().cStr()), "lockstep-seg");
          EXPECT_EQ(std::string(hello.getBulkEndpoint().cStr()), "inproc://bulk");
          EXPECT_EQ(std::string(hello.getBulkKey().cStr()), "lpk_bulk");
          EXPECT_EQ(std::string(hello.getMetricsEndpoint().cStr()), "http://127.0.0.1:9464");
        },
        Welcome(2, 3));
  });
  const StatusOr<Membership> membership = RunJoin();
  controller.join();
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ(membership->rank, 2);
  EXPECT_EQ(membership->epoch, Epoch(4));
  EXPECT_EQ(membership->world_size(), 3);
  EXPECT_THAT(membership->segments, ElementsAre("segment 0", "segment 1", "segment 2"));
  EXPECT_EQ(membership->liveness_endpoint, "inproc://liveness");
  EXPECT_EQ(membership->heartbeat_interval, 250ms);
  EXPECT_EQ(membership->flow_window_bytes, 1000u);
  EXPECT_EQ(membership->collective_timeout, 9s);
  EXPECT_EQ(membership->cluster, "cluster");
}

TEST_F(JoinTest, RefusalIsReturnedWithItsReason) {
  const StatusOr<Membership> membership = JoinAnswered(Say([](wire::Envelope::Builder envelope) {
    control::WriteError(envelope.initRefused().initError(),
                        control::ErrorOf(AlreadyExists("rank 2 is taken")));
  }));
  EXPECT_EQ(membership.status().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(Message(membership.status()), HasSubstr("rank 2 is taken"));
}

TEST_F(JoinTest, ShutdownEndsTheWait) {
  const StatusOr<Membership> membership =
      JoinAnswered(Say([](auto envelope) { envelope.setShutdown("going home"); }));
  EXPECT_EQ(membership.status().code(), StatusCode::kAborted);
  EXPECT_THAT(Message(membership.status()), HasSubstr("going home"));
  EXPECT_EQ(sent_away_, "going home");
}

TEST_F(JoinTest, ImpossiblePlaceIsRefused) {
  EXPECT_EQ(JoinAnswered(Welcome(3, 3)).status().code(), StatusCode::kInternal);
  EXPECT_EQ(JoinAnswered(Welcome(-1, 3)).status().code(), StatusCode::kInternal);
  EXPECT_EQ(JoinAnswered(Welcome(0, 0)).status().code(), StatusCode::kInternal);
}

TEST_F(JoinTest, BatchBeforeTheWelcomeIsRefused) {
  EXPECT_EQ(JoinAnswered(Say([](auto envelope) { envelope.setBatch(); })).status().code(),
            StatusCode::kInternal);
}

TEST_F(JoinTest, SilentControllerIsReportedAtTheDeadline) {
  const StatusOr<Membership> membership = RunJoin(20ms);
  EXPECT_EQ(membership.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(membership.status()), HasSubstr(server_->endpoint()));
}

TEST_F(JoinTest, WhoIsOutOfReachLearnsWhatWasTried) {
  std::thread controller([&] {
    Answer(Say([](auto envelope) { envelope.setOutOfReach("tcp://10.0.0.1:7 does not answer"); }));
  });
  const Status status = RunJoin(300ms).status();
  controller.join();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Message(status), HasSubstr("tcp://10.0.0.1:7 does not answer"));
}

// One that brings nothing gives up, and is started again ...
TEST_F(JoinTest, WhoKeepsNothingGivesUpInTime) {
  std::thread controller([&] { Answer(Say([](auto envelope) { envelope.setWaiting(); })); });
  EXPECT_EQ(RunJoin(300ms).status().code(), StatusCode::kDeadlineExceeded);
  controller.join();
}

// ... and what the other keeps would be lost.
TEST_F(JoinTest, WhoKeepsSomethingWaitsAsLongAsTheControllerAnswers) {
  offer_.inventory = Inventory();
  std::thread controller([&] {
    for (int i = 0; i < 2; ++i) {
      Answer(Say([](auto envelope) { envelope.setWaiting(); }));
    }
    Answer(Welcome(0, 1));
  });
  const auto begin = Deadline::Clock::now();
  // A hello follows the other after half a second.
  const StatusOr<Membership> membership = RunJoin(700ms);
  controller.join();
  EXPECT_TRUE(membership.ok()) << membership.status();
  EXPECT_GT(Deadline::Clock::now() - begin, 700ms);
}

TEST_F(JoinTest, StoppingEndsTheWait) {
  std::thread stopper([&] {
    stopping_ = true;
    wake_up_.Signal();
  });
  EXPECT_EQ(RunJoin().status().code(), StatusCode::kAborted);
  stopper.join();
}

// A controller that was restarted, or that has given the rank away, hears of the worker again.
TEST_F(JoinTest, HelloIsSaidAgainUntilItIsAnswered) {
  std::thread controller([&] {
    control::InputWaiter waiter(0us);
    control::Channel* const channels[] = {server_.get()};
    control::PeerName worker;
    control::Message message;
    ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
    ASSERT_TRUE(server_->Receive(&worker, &message));
    Answer([](wire::Hello::Reader hello) { EXPECT_EQ(hello.getPid(), getpid()); }, Welcome(0, 1));
  });
  EXPECT_TRUE(RunJoin().ok());
  controller.join();
}

TEST_F(JoinTest, GoodbyeSaysWhy) {
  ASSERT_TRUE(SendGoodbye(*client_, "enough").ok());
  control::InputWaiter waiter(0us);
  control::Channel* const channels[] = {server_.get()};
  ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
  control::PeerName worker;
  control::Message message;
  ASSERT_TRUE(server_->Receive(&worker, &message));
  EXPECT_TRUE(control::DecodeMessage<wire::WorkerMessage>(message[0], [](wire::WorkerMessage::Reader
                                                                             reader) {
                EXPECT_TRUE(reader.isGoodbye());
                EXPECT_EQ(std::string(reader.getGoodbye().cStr()), "enough");
                return OkStatus();
              }).ok());
}

TEST_F(JoinTest, ReadySaysRankBackendAndEpoch) {
  Membership membership;
  membership.rank = 3;
  membership.epoch = Epoch(12);
  ASSERT_TRUE(SendReady(*client_, membership, "shm", "").ok());
  control::InputWaiter waiter(0us);
  control::Channel* const channels[] = {server_.get()};
  ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
  control::PeerName worker;
  control::Message message;
  ASSERT_TRUE(server_->Receive(&worker, &message));
  EXPECT_TRUE(control::DecodeMessage<wire::WorkerMessage>(message[0], [](wire::WorkerMessage::Reader
                                                                             reader) {
                EXPECT_TRUE(reader.isReady());
                EXPECT_EQ(reader.getReady().getRank(), 3);
                EXPECT_EQ(std::string(reader.getReady().getBackend().cStr()), "shm");
                EXPECT_EQ(reader.getReady().getEpoch(), 12u);
                return OkStatus();
              }).ok());
}

}  // namespace
}  // namespace lockstep::worker
