#include "runtime/base/deadline.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;

TEST(DeadlineTest, PastDeadlineHasNothingLeft) {
  const Deadline past = Deadline::After(-hours(1));
  EXPECT_TRUE(past.Expired());
  EXPECT_EQ(past.Remaining(), Deadline::Clock::duration::zero());
  EXPECT_EQ(past.RemainingMillis(), 0);
}

TEST(DeadlineTest, FutureDeadlineHasTimeLeft) {
  const Deadline future = Deadline::After(hours(1));
  EXPECT_FALSE(future.Expired());
  EXPECT_GT(future.Remaining(), hours(1) - std::chrono::minutes(1));
  EXPECT_LE(future.Remaining(), hours(1));
}

TEST(DeadlineTest, MillisecondsAreRoundedUpSoThatPollDoesNotSpin) {
  // Until it is seen before it expires; almost always the first time.
  bool seen = false;
  for (int attempt = 0; attempt < 1000 && !seen; ++attempt) {
    const Deadline soon = Deadline::After(microseconds(500));
    const int millis = soon.RemainingMillis();
    if (soon.Expired()) continue;
    EXPECT_EQ(millis, 1);
    seen = true;
  }
  EXPECT_TRUE(seen);
}

TEST(DeadlineTest, FarDeadlinesDoNotOverflowMilliseconds) {
  EXPECT_EQ(Deadline::After(hours(24 * 365 * 10)).RemainingMillis(), 1 << 30);
}

TEST(DeadlineTest, EarlierTakesTheFirst) {
  const Deadline first = Deadline::After(hours(1));
  const Deadline second = Deadline::After(hours(2));
  EXPECT_EQ(first.Earlier(second).when(), first.when());
  EXPECT_EQ(second.Earlier(first).when(), first.when());
}

}  // namespace
}  // namespace lockstep
