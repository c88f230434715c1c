#include "services/controller/common/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "tests/unit/services/controller/fakes.h"

namespace lockstep::controller {
namespace {

using namespace std::chrono_literals;

TEST(EpochTest, EveryEpochIsGreaterThanAllBefore) {
  Epoch last = NewEpoch();
  for (int i = 0; i < 10'000; ++i) {
    const Epoch next = NewEpoch();
    ASSERT_GT(next, last);
    last = next;
  }
}

// Those of earlier processes were smaller.
TEST(EpochTest, EpochsFollowTheTimeOfDay) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  EXPECT_GE(
      NewEpoch().value,
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
}

// The clock may be set back, or be the same on two hosts.
TEST(EpochTest, ControllersThatAreStartedAtTheSameTimeOfDayHaveDifferentOnes) {
  constexpr auto kTime = 1'764'038'000'123ms;
  std::set<uint64_t> different;
  for (uint64_t random = 0; random < 4096; ++random) {
    const Epoch epoch = EpochAt(kTime, random << 40 | random);
    EXPECT_LT(epoch, EpochAt(kTime + 1ms, 0));
    different.insert(epoch.value);
  }
  EXPECT_EQ(different.size(), 4096u);
}

TEST(EpochTest, IsExactAsANumberInAMetric) {
  const uint64_t epoch = EpochAt(std::chrono::hours(24 * 365 * 68), ~uint64_t{0}).value;
  EXPECT_EQ(static_cast<uint64_t>(static_cast<double>(epoch)), epoch);
}

TEST(TimersTest, AreDueWhenTheFirstDeadlineHasPassed) {
  FakeClock clock;
  Timers timers(clock);
  timers.Begin(clock.now);
  timers.End(clock.now, Deadline::At(clock.now + Timers::kInterval));
  EXPECT_EQ(timers.After(100).when(), clock.now + 100ms);
  EXPECT_EQ(timers.next().when(), clock.now + 100ms);
  EXPECT_EQ(timers.After(200).when(), clock.now + 200ms);
  EXPECT_EQ(timers.next().when(), clock.now + 100ms);
}

TEST(TimersTest, AreHandledNoMoreOftenThanTheirResolution) {
  FakeClock clock;
  Timers timers(clock);
  timers.Begin(clock.now);
  timers.End(clock.now, Deadline::At(clock.now));
  EXPECT_EQ(timers.next().when(), clock.now + Timers::kResolution);
  timers.After(0);
  EXPECT_EQ(timers.next().when(), clock.now + Timers::kResolution);
}

TEST(TimersTest, NoClientMayAskForMoreThanADay) {
  FakeClock clock;
  Timers timers(clock);
  EXPECT_EQ(timers.After(~uint64_t{0}).when(), clock.now + 24h);
}

TEST(TimersTest, TellHowLongTheyWereNotHandled) {
  FakeClock clock;
  Timers timers(clock);
  timers.Begin(clock.now);
  clock.now += 3s;
  EXPECT_EQ(timers.Begin(clock.now), 3s);
}

}  // namespace
}  // namespace lockstep::controller
