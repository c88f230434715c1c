#include "services/worker/report/liveness_health.h"

#include <gtest/gtest.h>

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;

TEST(LivenessHealthTest, SilenceCountsFromTheLastBeat) {
  LivenessHealth liveness_health;
  EXPECT_EQ(liveness_health.SinceRound(), 0s) << "no round is expected";
  liveness_health.NoteRound(Deadline::Clock::now() - 1h, 250ms);
  EXPECT_GE(liveness_health.SinceRound(), 1h);
  EXPECT_EQ(liveness_health.interval(), 250ms);
  liveness_health.NoteRound(Deadline::Clock::now(), 250ms);
  EXPECT_LT(liveness_health.SinceRound(), 30min);
  liveness_health.NoteEnd();
  EXPECT_EQ(liveness_health.SinceRound(), 0s);
}

TEST(LivenessHealthTest, WhoIsHeardLeavesATrace) {
  LivenessHealth liveness_health;
  EXPECT_EQ(liveness_health.SinceControllerHeard(), 0s);
  liveness_health.NoteControllerHeard(Deadline::Clock::now() - 2h);
  EXPECT_GE(liveness_health.SinceControllerHeard(), 2h);
}

}  // namespace
}  // namespace lockstep::worker
