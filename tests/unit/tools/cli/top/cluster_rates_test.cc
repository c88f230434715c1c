#include "tools/cli/top/cluster_rates.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using namespace std::chrono_literals;

// A cluster of one worker with one session.
Sample At(std::chrono::milliseconds when) {
  Sample sample;
  sample.taken = std::chrono::steady_clock::time_point(when);
  sample.status.workers.resize(1);
  sample.status.workers[0].state = WorkerState::kReady;
  sample.status.sessions.resize(1);
  sample.status.sessions[0].session = SessionId(7);
  return sample;
}

TEST(RatesTest, AreDifferencesOverTheTimeBetween) {
  Sample before = At(0s);
  Sample after = At(2s);
  before.status.batches = 100;
  after.status.batches = 140;
  WorkerStatus& then = before.status.workers[0];
  WorkerStatus& now = after.status.workers[0];
  then.activity.completed = 1000;
  now.activity.completed = 1500;
  now.activity.received = 137;
  now.activity.collectives = 20;
  now.activity.bus_bytes = 4'000'000;
  now.activity.in_collectives = 500ms;
  after.status.sessions[0].commands = 60;
  after.status.sessions[0].sent_bytes = 3000;
  const ClusterRates rates = RatesBetween(before, after);
  EXPECT_EQ(rates.seconds, 2);
  EXPECT_EQ(rates.batches, 20);
  EXPECT_EQ(rates.workers[0].commands, 250);
  EXPECT_EQ(rates.workers[0].collectives, 10);
  EXPECT_EQ(rates.workers[0].bus_bytes, 2'000'000);
  EXPECT_EQ(rates.workers[0].collective_share, 0.25);
  EXPECT_EQ(rates.workers[0].waiting_batches, 3u);
  EXPECT_EQ(rates.sessions[0].commands, 30);
  EXPECT_EQ(rates.sessions[0].sent_bytes, 1500);
}

TEST(RatesTest, ACollectiveUnderWayIsTimeInCollectives) {
  Sample before = At(0s);
  Sample after = At(2s);
  WorkerActivity& now = after.status.workers[0].activity;
  now.kind = WorkerActivity::Kind::kCollective;
  now.since = 1s;
  EXPECT_EQ(RatesBetween(before, after).workers[0].collective_share, 0.5);
  now.since = 10s;
  EXPECT_EQ(RatesBetween(before, after).workers[0].collective_share, 1) << "never more than all";
}

TEST(RatesTest, SkewIsThatOfTheIntervalAlone) {
  Sample before = At(0s);
  Sample after = At(2s);
  before.status.compared_collectives = 1000;
  after.status.compared_collectives = 1010;
  before.status.workers[0].times_last = 400;
  after.status.workers[0].times_last = 404;
  before.status.workers[0].late_by = 1h;
  after.status.workers[0].late_by = 1h + 12ms;
  const ClusterRates rates = RatesBetween(before, after);
  EXPECT_EQ(rates.compared, 10u);
  EXPECT_EQ(rates.workers[0].last_share, 0.4);
  EXPECT_EQ(rates.workers[0].late, 3ms);
}

TEST(RatesTest, AnotherWorkerOfTheRankCountsFromZero) {
  Sample before = At(0s);
  Sample after = At(1s);
  before.status.workers[0].activity.completed = 1'000'000;
  before.status.workers[0].activity.bus_bytes = 10;
  after.status.workers[0].activity.completed = 5;
  after.status.workers[0].activity.bus_bytes = 100;
  const ClusterRates rates = RatesBetween(before, after);
  EXPECT_EQ(rates.workers[0].commands, 5);
  EXPECT_EQ(rates.workers[0].bus_bytes, 100);
}

TEST(RatesTest, ASessionThatIsNewHasSentAllSince) {
  Sample before = At(0s);
  Sample after = At(1s);
  before.status.sessions.clear();
  after.status.sessions[0].commands = 50;
  EXPECT_EQ(RatesBetween(before, after).sessions[0].commands, 50);
}

TEST(RatesTest, OneSampleHasNone) {
  const Sample only = At(1s);
  const ClusterRates rates = RatesBetween(only, only);
  EXPECT_EQ(rates.seconds, 0);
  EXPECT_EQ(rates.workers[0].commands, 0);
}

}  // namespace
}  // namespace lockstep::cli
