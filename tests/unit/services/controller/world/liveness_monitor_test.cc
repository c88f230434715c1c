#include "services/controller/world/liveness_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/host_identity.h"
#include "runtime/base/random.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "schemas/session.capnp.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr auto kLong = 20s;
constexpr auto kNever = std::chrono::milliseconds(1h);
constexpr Epoch kEpoch(5);

// A worker's end of the socket, driven by the test.
class FakeWorker {
 public:
  // `watches`: what the workers were told in their welcomes, by rank.
  FakeWorker(const std::shared_ptr<control::ZmqContext>& context, const std::string& endpoint,
             const std::map<Rank, WatchId>& watches)
      : channel_(std::move(*control::ZmqConnect(context, endpoint))), watches_(watches) {}

  void SendHeartbeat(Rank rank, uint64_t completed = 0, Epoch epoch = kEpoch) {
    Send(control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder m) {
      auto heartbeat = m.initHeartbeat();
      heartbeat.setRank(rank);
      heartbeat.setController(epoch.value);
      const auto watch = watches_.find(rank);
      if (watch != watches_.end()) heartbeat.setWatch(watch->second.value);
      auto activity = heartbeat.initActivity();
      activity.setReceived(completed + 2);
      activity.setLaunched(completed + 1);
      activity.setCompleted(completed);
      activity.setKind(wire::Activity::Kind::COMMAND);
      activity.setSession(3);
      activity.setCommand(17);
      activity.setWhat("sleep");
      activity.setSinceMillis(250);
    }));
  }
  void Send(const control::Frame& frame) { ASSERT_TRUE(channel_->Send({frame}).ok()); }

  // Waits for a message that `wanted` accepts; false if none comes.
  bool WaitFor(const std::function<bool(wire::LivenessMessage::Reader)>& wanted) {
    const Deadline deadline = Deadline::After(kLong);
    control::InputWaiter waiter(0us);
    control::Channel* const channels[] = {channel_.get()};
    while (waiter.Wait(channels, {}, deadline)) {
      control::Message message;
      bool found = false;
      while (!found && channel_->Receive(&message)) {
        EXPECT_TRUE(control::DecodeMessage<wire::LivenessMessage>(
                        message[0],
                        [&](wire::LivenessMessage::Reader reader) {
                          found = wanted(reader);
                          return OkStatus();
                        })
                        .ok());
      }
      if (found) return true;
    }
    return false;
  }
  bool WaitForBeacon() {
    return WaitFor([](wire::LivenessMessage::Reader reader) {
      return reader.isHeartbeat() && reader.getHeartbeat().getRank() == -1 &&
             reader.getHeartbeat().getController() == kEpoch.value;
    });
  }

 private:
  std::unique_ptr<control::ClientChannel> channel_;
  const std::map<Rank, WatchId>& watches_;
};

class LivenessTest : public testing::Test {
 protected:
  void Start(int workers, std::chrono::milliseconds timeout,
             std::chrono::milliseconds interval = 10ms) {
    auto channel = std::move(*control::ZmqListen(context_, "inproc://liveness-" + RandomHex(4)));
    endpoint_ = channel->endpoint();
    monitor_ = std::make_unique<LivenessMonitor>(
        std::move(channel), workers,
        LivenessMonitor::Options{kEpoch, interval, joining_timeout_.value_or(timeout), timeout,
                                 "tcp://controller:1"},
        [this](const WorkerLoss& loss) {
          std::lock_guard lock(mutex_);
          lost_.push_back(loss);
          changed_.notify_all();
        },
        [this](const WorkerReport& report) {
          std::lock_guard lock(mutex_);
          reports_.push_back(report);
          changed_.notify_all();
        });
  }
  // A worker that has been welcomed.
  WatchId Watch(Rank rank, const std::string& host_id, int pid) {
    const WatchId watch = monitor_->Watch(rank, host_id, pid);
    monitor_->ExpectHeartbeats(rank);
    watches_[rank] = watch;
    return watch;
  }
  void TearDown() override { monitor_.reset(); }

  FakeWorker Connect() { return FakeWorker(context_, endpoint_, watches_); }
  // The losses, once there are `count`.
  std::vector<WorkerLoss> WaitForLosses(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLong, [&] { return lost_.size() >= count; }));
    return lost_;
  }
  size_t losses() {
    std::lock_guard lock(mutex_);
    return lost_.size();
  }

  std::shared_ptr<control::ZmqContext> context_ = control::ZmqContext::Create();
  std::string endpoint_;
  std::unique_ptr<LivenessMonitor> monitor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WorkerLoss> lost_;
  std::map<Rank, WatchId> watches_;
  std::vector<WorkerReport> reports_;
  // Until the welcome and the first heartbeat; none: as long as from then on.
  std::optional<std::chrono::milliseconds> joining_timeout_;
};

TEST_F(LivenessTest, FirstHeartbeatIsAnsweredAtOnce) {
  Start(1, kNever, kNever);  // no beacon comes by itself
  Watch(0, "elsewhere", 1);
  FakeWorker worker = Connect();
  worker.SendHeartbeat(0);
  EXPECT_TRUE(worker.WaitForBeacon());
}

TEST_F(LivenessTest, AMessageOfAnotherProtocolIsAnsweredWithWhoListens) {
  Start(1, kNever, kNever);
  const auto stranger = std::move(*control::ZmqConnect(context_, endpoint_));
  ASSERT_TRUE(stranger
                  ->Send({control::EncodeMessage<wire::ClientMessage>(
                      [](wire::ClientMessage::Builder message) { message.setStatus(1); })})
                  .ok());
  control::InputWaiter waiter(0us);
  control::Channel* const channels[] = {stranger.get()};
  ASSERT_TRUE(waiter.Wait(channels, {}, Deadline::After(kLong)));
  control::Message message;
  ASSERT_TRUE(stranger->Receive(&message));
  EXPECT_THAT(lockstep::Message(control::CheckProtocol(
                  message[0], control::Protocol::kControllerToClient, "tcp://here")),
              testing::AllOf(testing::HasSubstr("a liveness socket of Lockstep "),
                             testing::HasSubstr("answers at tcp://here, not a controller's client"),
                             testing::HasSubstr("client port is tcp://controller:1")));
}

TEST_F(LivenessTest, HeartbeatsCarryProgress) {
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

TEST_F(LivenessTest, SilentWorkerIsLostOnceAndTheOthersAreNot) {
  Start(2, 150ms);
  Watch(0, "elsewhere", 1);
  Watch(1, "elsewhere", 2);
  FakeWorker worker = Connect();
  const Deadline deadline = Deadline::After(kLong);
  while (losses() == 0 && !deadline.Expired()) {
    worker.SendHeartbeat(0);
    ASSERT_TRUE(worker.WaitForBeacon());
  }
  const auto lost = WaitForLosses(1);
  EXPECT_EQ(lost[0].rank, 1);
  EXPECT_THAT(lost[0].reason, HasSubstr("no heartbeat for"));
  // From now on rank 0 is silent too; rank 1 is not lost again.
  EXPECT_EQ(WaitForLosses(2)[1].rank, 0);
}

TEST_F(LivenessTest, WorkersThatNobodyWatchesAreNeverLost) {
  Start(3, 50ms);
  Watch(2, "elsewhere", 1);
  EXPECT_EQ(WaitForLosses(1)[0].rank, 2);
  EXPECT_EQ(losses(), 1u);
}

// Nothing is ever heard from it, and its time-out is far away: only the kernel can tell.
TEST_F(LivenessTest, EndOfAProcessOnThisHostIsNoticedAtOnce) {
  Start(1, kNever, kNever);
  auto child = ChildProcess::Spawn(
      {.argv = {"/bin/sh", "-c", "kill -STOP $$"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  Watch(0, ThisHost().id, child->pid());
  EXPECT_EQ(losses(), 0u);
  child->Signal(SIGKILL);
  const auto lost = WaitForLosses(1);
  EXPECT_EQ(lost[0].rank, 0);
  EXPECT_THAT(lost[0].reason, HasSubstr("its process " + std::to_string(child->pid()) +
                                        " was killed by signal 9 (Killed)"));
}

TEST_F(LivenessTest, ProcessIdsOfOtherHostsMeanNothingHere) {
  Start(1, kNever, kNever);
  auto child = ChildProcess::Spawn({.argv = {"/bin/true"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  Watch(0, "another host", child->pid());
  ASSERT_TRUE(child->Wait(Deadline::After(kLong)).ok());
  FakeWorker worker = Connect();
  worker.SendHeartbeat(0);
  EXPECT_TRUE(worker.WaitForBeacon());
  EXPECT_EQ(losses(), 0u);
}

TEST_F(LivenessTest, AbortReachesEveryWorkerThatWasHeard) {
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

TEST_F(LivenessTest, AbortQueuedBeforeTheEndIsStillSent) {
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

TEST_F(LivenessTest, WorkerThatWaitsForItsWelcomeHasAPatienceOfItsOwn) {
  joining_timeout_ = 150ms;
  Start(2, kNever);
  const WatchId silent = monitor_->Watch(0, "elsewhere", 1);
  monitor_->Watch(1, "elsewhere", 2);
  const Deadline deadline = Deadline::After(kLong);
  while (losses() == 0 && !deadline.Expired()) monitor_->NoteAlive(1);
  const auto lost = WaitForLosses(1);
  EXPECT_EQ(lost[0].rank, 0);
  EXPECT_EQ(lost[0].watch, silent);
  EXPECT_THAT(lost[0].reason, HasSubstr("no heartbeat for"));
}

TEST_F(LivenessTest, EveryWatchingHasANameOfItsOwn) {
  Start(2, kNever);
  const WatchId first = monitor_->Watch(0, "elsewhere", 1);
  EXPECT_NE(monitor_->Watch(1, "elsewhere", 1), first);
  EXPECT_NE(monitor_->Watch(0, "elsewhere", 1), first);
}

TEST_F(LivenessTest, ForgottenWorkerIsNotLost) {
  Start(2, 50ms);
  Watch(0, "elsewhere", 1);
  monitor_->Forget(0);
  Watch(1, "elsewhere", 2);
  EXPECT_EQ(WaitForLosses(1)[0].rank, 1);
  EXPECT_EQ(losses(), 1u);
}

// Its hello was still on its way when it ended.
TEST_F(LivenessTest, ProcessThatHadEndedBeforeItWasWatchedIsLost) {
  Start(1, kNever, kNever);
  auto child = ChildProcess::Spawn({.argv = {"/bin/true"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(child->Wait(Deadline::After(kLong)).ok());
  monitor_->Watch(0, ThisHost().id, child->pid());
  EXPECT_THAT(WaitForLosses(1)[0].reason, HasSubstr("has ended"));
  EXPECT_THAT(monitor_->TakeEnded(), IsEmpty()) << "it was reported";
}

// A caller that asks does not wait for the report, and the loss is told once.
TEST_F(LivenessTest, LossIsTakenOrReported) {
  Start(1, kNever, kNever);
  auto child = ChildProcess::Spawn({.argv = {"/bin/true"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(child->Wait(Deadline::After(kLong)).ok());
  for (int i = 1; i <= 50; ++i) {
    const WatchId watch = monitor_->Watch(0, ThisHost().id, child->pid());
    const auto taken = monitor_->TakeEnded();
    std::vector<WorkerLoss> told = taken;
    if (taken.empty()) told.push_back(WaitForLosses(1).back());
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].watch, watch);
    EXPECT_THAT(told[0].reason, HasSubstr("has ended"));
  }
}

TEST_F(LivenessTest, OnlyProcessesCanBeKnownToHaveEnded) {
  Start(3, kNever);
  monitor_->Watch(0, "elsewhere", 1);
  monitor_->Watch(1, ThisHost().id, getpid());
  EXPECT_THAT(monitor_->TakeEnded(), IsEmpty());
}

TEST_F(LivenessTest, ReportsOfWorkersAnswerProbes) {
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
  ASSERT_TRUE(changed_.wait_for(lock, kLong, [&] { return !reports_.empty(); }));
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].probe, 9u);
  EXPECT_EQ(reports_[0].rank, 1);
}

TEST_F(LivenessTest, StoppedProcessesAreToldFromDeadOnes) {
  Start(1, 300ms, 50ms);
  auto child = ChildProcess::Spawn(
      {.argv = {"/bin/sh", "-c", "kill -STOP $$"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  Watch(0, ThisHost().id, child->pid());
  EXPECT_THAT(WaitForLosses(1)[0].reason,
              testing::AllOf(HasSubstr("no heartbeat for"), HasSubstr("is stopped")));
}

TEST_F(LivenessTest, WorkersThatWereGivenUpAreDismissed) {
  Start(1, 50ms);
  Watch(0, "elsewhere", 1);
  WaitForLosses(1);
  FakeWorker frozen = Connect();
  frozen.SendHeartbeat(0, 99);
  std::string why;
  const auto dismissed = [&](wire::LivenessMessage::Reader reader) {
    if (reader.isDismissed()) why = control::ToString(reader.getDismissed());
    return reader.isDismissed();
  };
  ASSERT_TRUE(frozen.WaitFor(dismissed));
  EXPECT_THAT(why, HasSubstr("no heartbeat for"));
  EXPECT_EQ(monitor_->LastHeardOf(0).activity.completed, 0u) << "it counts for nothing";
  // Another one has joined in its place: that one's heartbeats count, the first one's do not.
  const std::map<Rank, WatchId> old = watches_;
  FakeWorker first(context_, endpoint_, old);
  monitor_->Watch(0, "elsewhere", 2);
  first.SendHeartbeat(0, 99);
  ASSERT_TRUE(first.WaitFor(dismissed));
  EXPECT_THAT(why, HasSubstr("another"));
  EXPECT_EQ(monitor_->LastHeardOf(0).activity.completed, 0u);
}

// Workers of a controller that was killed still speak to its endpoint.
TEST_F(LivenessTest, WorkerOfAnEarlierControllerCountsForNothingAndIsTold) {
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

TEST_F(LivenessTest, NonsenseIsDropped) {
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
