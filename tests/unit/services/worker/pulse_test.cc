#include "services/worker/pulse.h"

#include <gtest/gtest.h>

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;

TEST(PulseTest, SilenceCountsFromTheLastBeat) {
  Pulse pulse;
  EXPECT_EQ(pulse.Silence(), 0s) << "nobody is expected";
  pulse.Beat(Deadline::Clock::now() - 1h, 250ms);
  EXPECT_GE(pulse.Silence(), 1h);
  EXPECT_EQ(pulse.interval(), 250ms);
  pulse.Beat(Deadline::Clock::now(), 250ms);
  EXPECT_LT(pulse.Silence(), 30min);
  pulse.Rest();
  EXPECT_EQ(pulse.Silence(), 0s);
}

TEST(PulseTest, WhoIsHeardLeavesATrace) {
  Pulse pulse;
  EXPECT_EQ(pulse.SinceHeard(), 0s);
  pulse.Hear(Deadline::Clock::now() - 2h);
  EXPECT_GE(pulse.SinceHeard(), 2h);
}

}  // namespace
}  // namespace lockstep::worker
