#include "services/controller/world/watched_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/host_identity.h"
#include "services/controller/world/worker_end.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two workers of other hosts, which heartbeats alone tell of.
class WatchedWorkersTest : public testing::Test {
 protected:
  WatchId Watch(Rank rank) { return workers_.Watch(rank, {}, now_); }
  // Looks as often as is asked for; the ranks that are lost meanwhile.
  std::vector<Rank> Pass(std::chrono::milliseconds time) {
    std::vector<Rank> lost;
    const TimePoint end = now_ + time;
    while (now_ < end) {
      now_ = std::clamp(workers_.next_look(), now_ + 1ms, end);
      for (const WorkerLoss& loss : workers_.TakeLost(now_)) {
        lost.push_back(loss.rank);
        reason_ = loss.reason;
      }
    }
    return lost;
  }

  TimePoint now_{1h};
  WatchedWorkers workers_{2, {100ms, 5000ms, 1000ms}};
  std::string reason_;
};

TEST_F(WatchedWorkersTest, WorkerThatJoinsMayBeSilentForLonger) {
  Watch(0);
  Watch(1);
  workers_.Welcome(1, now_);
  workers_.Hear(1, "worker 1", now_);
  EXPECT_THAT(Pass(990ms), IsEmpty());
  EXPECT_THAT(Pass(20ms), ElementsAre(1));
  EXPECT_EQ(reason_, "no heartbeat for 1000 ms");
  EXPECT_THAT(Pass(3900ms), IsEmpty());
  EXPECT_THAT(Pass(200ms), ElementsAre(0));
  EXPECT_THAT(Pass(10s), IsEmpty()) << "each is lost once";
}

// A thousand workers that are welcomed at once take a while to be heard.
TEST_F(WatchedWorkersTest, FirstHeartbeatMayComeAsLateAsAWelcome) {
  Watch(0);
  workers_.Welcome(0, now_);
  EXPECT_THAT(Pass(4900ms), IsEmpty());
  EXPECT_THAT(Pass(200ms), ElementsAre(0));
}

TEST_F(WatchedWorkersTest, WorkerThatIsHeardLives) {
  Watch(0);
  workers_.Welcome(0, now_);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(Pass(900ms), IsEmpty());
    workers_.NoteAlive(0, now_);
  }
}

TEST_F(WatchedWorkersTest, TimeInWhichItCouldNotLookIsNoSilence) {
  Watch(0);
  workers_.Welcome(0, now_);
  workers_.Hear(0, "worker 0", now_);
  EXPECT_THAT(Pass(100ms), IsEmpty());
  now_ += 1h;
  EXPECT_THAT(workers_.TakeLost(now_), IsEmpty());
  EXPECT_THAT(Pass(800ms), IsEmpty());
  EXPECT_THAT(Pass(300ms), ElementsAre(0));
}

TEST_F(WatchedWorkersTest, EveryWatchingHasANumberOfItsOwn) {
  const WatchId first = Watch(0);
  EXPECT_TRUE(workers_.IsWatched(0, first.value));
  const WatchId second = Watch(0);
  EXPECT_FALSE(workers_.IsWatched(0, first.value));
  EXPECT_TRUE(workers_.IsWatched(0, second.value));
  EXPECT_FALSE(workers_.IsWatched(1, second.value));
  EXPECT_FALSE(workers_.IsWatched(-1, second.value));
  EXPECT_FALSE(workers_.IsWatched(2, second.value));
}

TEST_F(WatchedWorkersTest, WorkerThatIsGivenUpLearnsWhyAndItsPredecessorThatAnotherHasItsRank) {
  const WatchId first = Watch(0);
  const WatchId second = Watch(0);
  workers_.Lose(0, "it was silent", now_);
  EXPECT_FALSE(workers_.IsWatched(0, second.value));
  EXPECT_EQ(workers_.WhyDismissed(0, second.value), "it was silent");
  EXPECT_EQ(workers_.WhyDismissed(0, first.value), "another has its rank");
}

TEST_F(WatchedWorkersTest, WhatAWorkerDidLastIsKeptWhenItIsLost) {
  Watch(0);
  WorkerActivity activity;
  activity.command = 7;
  workers_.Hear(0, activity, now_);
  now_ += 300ms;
  EXPECT_EQ(workers_.LastHeardOf(0, now_).heartbeat_age, 300ms);
  EXPECT_EQ(workers_.Lose(0, "gone", now_).last.activity.command, 7u);
  EXPECT_EQ(workers_.LastHeardOf(0, now_).activity.command, 7u);
  workers_.Forget(0);
  EXPECT_EQ(workers_.LastHeardOf(0, now_).activity.command, 0u);
}

TEST_F(WatchedWorkersTest, PeersAreThoseThatWereHeardAndLive) {
  Watch(0);
  Watch(1);
  EXPECT_THAT(workers_.Peers(), IsEmpty());
  EXPECT_TRUE(workers_.Hear(0, "a", now_)) << "for the first time";
  EXPECT_FALSE(workers_.Hear(0, "a", now_));
  EXPECT_TRUE(workers_.Hear(1, "b", now_));
  EXPECT_THAT(workers_.Peers(), ElementsAre("a", "b"));
  workers_.Lose(0, "gone", now_);
  EXPECT_THAT(workers_.Peers(), ElementsAre("b"));
  EXPECT_EQ(workers_.PeerOf(0), "");
}

TEST_F(WatchedWorkersTest, ProcessThatWasKilledLeavesAHintAndALog) {
  auto child = ChildProcess::Spawn(
      {.argv = {"/bin/sh", "-c", "kill -BUS $$"}, .environment = {}, .log_path = {}});
  ASSERT_TRUE(child.ok()) << child.status();
  workers_.Watch(0, WatchedWorkers::FindSigns(ThisHost().id, child->pid(), ""), now_);
  std::vector<WorkerLoss> losses;
  while (losses.empty()) losses = workers_.TakeEnded(now_);
  EXPECT_TRUE(losses[0].log_tells);
  // Unless it had ended before it could be watched, and then nothing is known.
  if (losses[0].reason.ends_with("has ended")) return;
  EXPECT_THAT(losses[0].reason, HasSubstr("was killed by signal 7"));
  EXPECT_THAT(losses[0].hint, HasSubstr("a module that was written over"));
}

TEST(WorkerEndTest, HintsSayWhatIsKnown) {
  EXPECT_EQ(HintAtCause({.known = false}, 1), "");
  EXPECT_EQ(HintAtCause({.code = 3}, 1), "");
  EXPECT_EQ(HintAtCause({.signal = SIGSEGV}, 1), "");
  EXPECT_THAT(HintAtCause({.signal = SIGKILL}, 1),
              HasSubstr("has killed 1 process of this host for lack of memory"));
  EXPECT_THAT(HintAtCause({.signal = SIGKILL}, 0), HasSubstr("has killed no process"));
  EXPECT_THAT(HintAtCause({.signal = SIGKILL}, std::nullopt), HasSubstr("for lack of memory, too"));
  EXPECT_THAT(HintAtCause({.signal = SIGABRT}, 0), HasSubstr("an exception that no code catches"));
}

TEST(WorkerEndTest, LogsOfNamedClustersAreAskedForByName) {
  EXPECT_THAT(WhereItsLogIs(2, "lockstep"), HasSubstr("`lockstep logs --rank 2`"));
  EXPECT_THAT(WhereItsLogIs(2, "blue"), HasSubstr("`lockstep logs --rank 2 --name blue`"));
}

TEST_F(WatchedWorkersTest, ProcessThatHadEndedBeforeItCouldBeWatchedIsLostAtOnce) {
  WatchedWorkers::Signs signs;
  signs.pid = 4711;
  signs.had_ended = true;
  workers_.Watch(1, std::move(signs), now_);
  const std::vector<WorkerLoss> losses = workers_.TakeEnded(now_);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_EQ(losses[0].rank, 1);
  EXPECT_EQ(losses[0].reason, "its process 4711 has ended");
  EXPECT_THAT(workers_.TakeEnded(now_), IsEmpty());
}

}  // namespace
}  // namespace lockstep::controller
