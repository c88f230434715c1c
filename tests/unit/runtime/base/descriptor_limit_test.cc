#include "runtime/base/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>

namespace lockstep {
namespace {

TEST(DescriptorLimitTest, IsRaisedToTheHardOneOrToAsMuchAsIsWanted) {
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(RaisedDescriptorLimit(1024, 4096), 4096u);
  EXPECT_EQ(RaisedDescriptorLimit(1024, 1'000'000'000), kMostDescriptors);
  EXPECT_EQ(RaisedDescriptorLimit(1024, kNone), kMostDescriptors);
  EXPECT_EQ(RaisedDescriptorLimit(100'000, 1'000'000), 100'000u) << "never lowered";
  EXPECT_EQ(RaisedDescriptorLimit(kNone, kNone), kNone);
}

TEST(DescriptorLimitTest, OfThisProcessIsRaised) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{256, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  RaiseDescriptorLimit();
  rlimit after{};
  getrlimit(RLIMIT_NOFILE, &after);
  EXPECT_EQ(after.rlim_cur, std::min<rlim_t>(before.rlim_max, kMostDescriptors));
  EXPECT_EQ(after.rlim_max, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace lockstep
