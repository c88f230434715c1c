#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/control/error_codec.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/session.capnp.h"
#include "tests/support/patience.h"
#include "tests/unit/services/controller/world/liveness_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

class LivenessMonitorTest : public LivenessFixture {};

TEST_F(LivenessMonitorTest, FirstHeartbeatIsAnsweredAtOnce) {
  Start(1, kNever, kNever);  // no beacon comes by itself
  Watch(0, "elsewhere", 1);
  FakeWorker worker = Connect();
  worker.SendHeartbeat(0);
  EXPECT_TRUE(worker.WaitForBeacon());
}

TEST_F(LivenessMonitorTest, AMessageOfAnotherProtocolIsAnsweredWithWhoListens) {
  Start(1, kNever, kNever);
  const auto stranger = std::move(*control::ZmqConnect(context_, endpoint_));
  ASSERT_TRUE(stranger
                  ->Send({control::EncodeMessage<wire::ClientMessage>(
                      [](wire::ClientMessage::Builder message) { message.setStatus(1); })})
                  .ok());
  control::InputWaiter waiter(0us);
  control::Channel* const channels[] = {stranger.get()};
  ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(support::kLong)));
  control::Message message;
  ASSERT_TRUE(stranger->Receive(&message));
  EXPECT_THAT(lockstep::Message(control::CheckProtocol(
                  message[0], control::Protocol::kControllerToClient, "tcp://here")),
              AllOf(HasSubstr("a liveness socket of Lockstep "),
                    HasSubstr("answers at tcp://here, not a controller's client"),
                    HasSubstr("client port is tcp://controller:1")));
}

TEST_F(LivenessMonitorTest, HeartbeatsCarryProgress) {
  Start(2, kNever);
  Watch(0, "elsewhere", 1);
  Watch(1, "elsewhere", 2);
  FakeWorker worker = Connect();
  worker.SendHeartbeat(1, 40);
  ASSERT_TRUE(worker.WaitForBeacon());
  const WorkerActivity activity = monitor_->LastHeardOf(1).activity;
  EXPECT_EQ(activity.received, 42u);
  EXPECT_EQ(activity.launched, 41u);
  EXPECT_EQ(activity.completed, 40u);
  EXPECT_EQ(activity.Describe(), "command 17 (sleep) of session 3 for 0.2 s");
  EXPECT_EQ(monitor_->LastHeardOf(0).activity.completed, 0u);
}

TEST_F(LivenessMonitorTest, AbortReachesEveryWorkerThatWasHeard) {
  Start(3, kNever);
  std::vector<FakeWorker> workers;
  for (Rank rank = 0; rank < 3; ++rank) {
    Watch(rank, "elsewhere", rank + 1);
    workers.push_back(Connect());
    workers.back().SendHeartbeat(rank);
    ASSERT_TRUE(workers.back().WaitForBeacon());
  }
  control::RemoteError cause;
  cause.code = StatusCode::kInternal;
  cause.rank = 2;
  cause.message = "the first cause";
  monitor_->Abort(SessionId(7), Generation(3), 12, cause);
  for (FakeWorker& worker : workers) {
    EXPECT_TRUE(worker.WaitFor([](wire::LivenessMessage::Reader reader) {
      if (!reader.isAbort()) return false;
      EXPECT_EQ(reader.getAbort().getSession(), 7u);
      EXPECT_EQ(reader.getAbort().getGeneration(), 3u);
      EXPECT_EQ(reader.getAbort().getFromCommand(), 12u);
      const control::RemoteError read = control::ReadError(reader.getAbort().getCause());
      EXPECT_EQ(read.rank, 2);
      EXPECT_EQ(read.message, "the first cause");
      return true;
    }));
  }
}

TEST_F(LivenessMonitorTest, AbortQueuedBeforeTheEndIsStillSent) {
  Start(1, kNever, kNever);
  Watch(0, "elsewhere", 1);
  FakeWorker worker = Connect();
  worker.SendHeartbeat(0);
  ASSERT_TRUE(worker.WaitForBeacon());
  monitor_->Abort(SessionId(1), Generation(0), 0, control::ErrorOf(Aborted("the end")));
  monitor_->Stop();
  EXPECT_TRUE(
      worker.WaitFor([](wire::LivenessMessage::Reader reader) { return reader.isAbort(); }));
}

TEST_F(LivenessMonitorTest, ReportsOfWorkersAnswerProbes) {
  Start(2, kNever);
  Watch(1, "elsewhere", 1);
  FakeWorker worker = Connect();
  worker.SendHeartbeat(1);
  ASSERT_TRUE(worker.WaitForBeacon());
  monitor_->Probe(9);
  ASSERT_TRUE(worker.WaitFor([](wire::LivenessMessage::Reader reader) {
    return reader.isProbe() && reader.getProbe() == 9;
  }));
  const auto report = [&](Rank rank, Epoch epoch) {
    worker.Send(
        control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder m) {
          auto body = m.initReport();
          body.setProbe(9);
          body.setRank(rank);
          body.setController(epoch.value);
          body.setWatch(watches_[rank].value);
        }));
  };
  report(0, kEpoch);  // it is not watched
  report(7, kEpoch);
  report(1, Epoch(kEpoch.value - 1));
  report(1, kEpoch);
  std::unique_lock lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, support::kLong, [&] { return !reports_.empty(); }));
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].probe, 9u);
  EXPECT_EQ(reports_[0].rank, 1);
}

// Workers of a controller that was killed still speak to its endpoint.
TEST_F(LivenessMonitorTest, WorkerOfAnEarlierControllerCountsForNothingAndIsTold) {
  Start(1, kNever, kNever);
  Watch(0, "elsewhere", 1);
  FakeWorker ours = Connect();
  ours.SendHeartbeat(0, 7);
  ASSERT_TRUE(ours.WaitForBeacon());
  FakeWorker theirs = Connect();
  theirs.SendHeartbeat(0, 99, Epoch(kEpoch.value - 1));
  EXPECT_TRUE(theirs.WaitForBeacon()) << "by the epoch in it they know";
  EXPECT_EQ(monitor_->LastHeardOf(0).activity.completed, 7u);
  // Aborts still go to ours.
  monitor_->Abort(SessionId(1), Generation(0), 0, control::ErrorOf(Aborted("the end")));
  EXPECT_TRUE(ours.WaitFor([](wire::LivenessMessage::Reader reader) { return reader.isAbort(); }));
}

TEST_F(LivenessMonitorTest, NonsenseIsDropped) {
  Start(1, kNever);
  Watch(0, "elsewhere", 1);
  FakeWorker hostile = Connect();
  hostile.SendHeartbeat(-1);
  hostile.SendHeartbeat(1);
  hostile.SendHeartbeat(1 << 30);
  hostile.SendHeartbeat(0, 99, Epoch(kEpoch.value + 1));
  hostile.Send(control::Frame());
  hostile.Send(control::Frame::Copy("junk that is no message", 23));
  const std::vector<uint64_t> words(64, ~uint64_t{0});
  hostile.Send(control::Frame::Copy(words.data(), words.size() * 8));
  FakeWorker worker = Connect();
  worker.SendHeartbeat(0, 7);
  EXPECT_TRUE(worker.WaitForBeacon());
  EXPECT_EQ(monitor_->LastHeardOf(0).activity.completed, 7u);
  EXPECT_EQ(losses(), 0u);
}

}  // namespace
}  // namespace lockstep::controller
