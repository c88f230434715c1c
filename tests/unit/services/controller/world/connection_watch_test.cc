#include "services/controller/world/connection_watch.h"

#include <gtest/gtest.h>

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;

class ConnectionWatchTest : public testing::Test {
 protected:
  static WorkerActivity At(uint64_t received) {
    WorkerActivity activity;
    activity.received = received;
    return activity;
  }
  // Looks so often; true if any has found the connection broken.
  bool Look(int times, const WorkerActivity& activity, bool is_ready = true) {
    bool broken = false;
    for (int i = 0; i < times; ++i) broken |= watch_.IsBroken(0, is_ready, activity);
    return broken;
  }
  // `ordered` batches are due.
  void BeDue(uint64_t ordered) {
    watch_.Begin(now_, ordered);
    watch_.Begin(now_ += 1s, ordered);
  }

  TimePoint now_{1h};
  ConnectionWatch watch_{1, 1s};
};

TEST_F(ConnectionWatchTest, BatchThatIsNotDueYetIsNotMissed) {
  watch_.Begin(now_, 7);
  EXPECT_FALSE(Look(10, At(6)));
  watch_.Begin(now_ + 900ms, 7);
  EXPECT_FALSE(Look(10, At(6)));
}

TEST_F(ConnectionWatchTest, WorkerThatWaitsForABatchThatIsDueHasABrokenConnection) {
  BeDue(7);
  EXPECT_FALSE(Look(4, At(6)));
  EXPECT_TRUE(Look(1, At(6)));
}

TEST_F(ConnectionWatchTest, WorkerThatWorksOrComesFurtherHasNone) {
  BeDue(7);
  WorkerActivity working = At(6);
  working.launched = 1;
  EXPECT_FALSE(Look(10, working)) << "it executes";
  EXPECT_FALSE(Look(10, At(7))) << "it has all";
  EXPECT_FALSE(Look(10, At(6), false)) << "it is not ready";
  for (uint64_t received = 0; received < 7; ++received) {
    EXPECT_FALSE(Look(3, At(received))) << "it works off its queue";
  }
}

TEST_F(ConnectionWatchTest, WorkerThatGetsItByAnotherWayIsGivenAWholeDeliveryTime) {
  BeDue(7);
  EXPECT_TRUE(Look(5, At(6)));
  watch_.Forgive(0);
  for (int i = 0; i < 9; ++i) {
    watch_.Begin(now_ += 100ms, 7);
    EXPECT_FALSE(Look(10, At(6))) << "after " << i + 1 << " looks";
  }
  watch_.Begin(now_ += 100ms, 7);
  EXPECT_TRUE(Look(5, At(6)));
}

TEST_F(ConnectionWatchTest, WhatWasSentBeforeIsNotDueToNewcomers) {
  BeDue(7);
  watch_.Restart(now_);
  EXPECT_FALSE(Look(10, At(0)));
  watch_.Begin(now_ + 500ms, 7);
  EXPECT_FALSE(Look(10, At(0)));
}

}  // namespace
}  // namespace lockstep::controller
