#include "services/controller/common/clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::controller {
namespace {

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

}  // namespace
}  // namespace lockstep::controller
