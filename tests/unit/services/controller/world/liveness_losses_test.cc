// Which workers the liveness monitor takes for lost, and what becomes of those.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/host_identity.h"
#include "runtime/control/value_codec.h"
#include "tests/support/patience.h"
#include "tests/unit/services/controller/world/liveness_fixture.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class LivenessLossesTest : public LivenessFixture {};

TEST_F(LivenessLossesTest, SilentWorkerIsLostOnceAndTheOthersAreNot) {
  Start(2, 150ms);
  Watch(0, "elsewhere", 1);
  Watch(1, "elsewhere", 2);
  FakeWorker worker = Connect();
  const Deadline deadline = Deadline::After(support::kLong);
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

TEST_F(LivenessLossesTest, WorkersThatNobodyWatchesAreNeverLost) {
  Start(3, 50ms);
  Watch(2, "elsewhere", 1);
  EXPECT_EQ(WaitForLosses(1)[0].rank, 2);
  EXPECT_EQ(losses(), 1u);
}

// Nothing is ever heard from it, and its time-out is far away: only the kernel can tell.
TEST_F(LivenessLossesTest, EndOfAProcessOnThisHostIsNoticedAtOnce) {
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

TEST_F(LivenessLossesTest, ProcessIdsOfOtherHostsMeanNothingHere) {
  Start(1, kNever, kNever);
  auto child = ChildProcess::Spawn({.argv = {"/bin/true"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  Watch(0, "another host", child->pid());
  ASSERT_TRUE(child->Wait(Deadline::After(support::kLong)).ok());
  FakeWorker worker = Connect();
  worker.SendHeartbeat(0);
  EXPECT_TRUE(worker.WaitForBeacon());
  EXPECT_EQ(losses(), 0u);
}

TEST_F(LivenessLossesTest, WorkerThatWaitsForItsWelcomeHasAPatienceOfItsOwn) {
  joining_timeout_ = 150ms;
  Start(2, kNever);
  const WatchId silent = monitor_->Watch(0, "elsewhere", 1);
  monitor_->Watch(1, "elsewhere", 2);
  const Deadline deadline = Deadline::After(support::kLong);
  while (losses() == 0 && !deadline.Expired()) monitor_->NoteAlive(1);
  const auto lost = WaitForLosses(1);
  EXPECT_EQ(lost[0].rank, 0);
  EXPECT_EQ(lost[0].watch, silent);
  EXPECT_THAT(lost[0].reason, HasSubstr("no heartbeat for"));
}

TEST_F(LivenessLossesTest, EveryWatchingHasANameOfItsOwn) {
  Start(2, kNever);
  const WatchId first = monitor_->Watch(0, "elsewhere", 1);
  EXPECT_NE(monitor_->Watch(1, "elsewhere", 1), first);
  EXPECT_NE(monitor_->Watch(0, "elsewhere", 1), first);
}

TEST_F(LivenessLossesTest, ForgottenWorkerIsNotLost) {
  Start(2, 50ms);
  Watch(0, "elsewhere", 1);
  monitor_->Forget(0);
  Watch(1, "elsewhere", 2);
  EXPECT_EQ(WaitForLosses(1)[0].rank, 1);
  EXPECT_EQ(losses(), 1u);
}

// Its hello was still on its way when it ended.
TEST_F(LivenessLossesTest, ProcessThatHadEndedBeforeItWasWatchedIsLost) {
  Start(1, kNever, kNever);
  auto child = ChildProcess::Spawn({.argv = {"/bin/true"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(child->Wait(Deadline::After(support::kLong)).ok());
  monitor_->Watch(0, ThisHost().id, child->pid());
  EXPECT_THAT(WaitForLosses(1)[0].reason, HasSubstr("has ended"));
  EXPECT_THAT(monitor_->TakeEnded(), IsEmpty()) << "it was reported";
}

// A caller that asks does not wait for the report, and the loss is told once.
TEST_F(LivenessLossesTest, LossIsTakenOrReported) {
  Start(1, kNever, kNever);
  auto child = ChildProcess::Spawn({.argv = {"/bin/true"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_TRUE(child->Wait(Deadline::After(support::kLong)).ok());
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

TEST_F(LivenessLossesTest, OnlyProcessesCanBeKnownToHaveEnded) {
  Start(3, kNever);
  monitor_->Watch(0, "elsewhere", 1);
  monitor_->Watch(1, ThisHost().id, getpid());
  EXPECT_THAT(monitor_->TakeEnded(), IsEmpty());
}

TEST_F(LivenessLossesTest, StoppedProcessesAreToldFromDeadOnes) {
  Start(1, 300ms, 50ms);
  auto child = ChildProcess::Spawn(
      {.argv = {"/bin/sh", "-c", "kill -STOP $$"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  Watch(0, ThisHost().id, child->pid());
  EXPECT_THAT(WaitForLosses(1)[0].reason,
              AllOf(HasSubstr("no heartbeat for"), HasSubstr("is stopped")));
}

TEST_F(LivenessLossesTest, WorkersThatWereGivenUpAreDismissed) {
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

}  // namespace
}  // namespace lockstep::controller
