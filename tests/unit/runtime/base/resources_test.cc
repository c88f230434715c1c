#include "runtime/base/resources.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

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

namespace {

// Opens all that the process may, until it is destroyed.
class Hoard {
 public:
  Hoard() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{64, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    TakeAll();
  }
  ~Hoard() {
    GiveBack(taken_.size());
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  // How many there were.
  size_t TakeAll() {
    const size_t before = taken_.size();
    for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken_.push_back(fd);
    return taken_.size() - before;
  }
  void GiveBack(size_t count) {
    for (; count > 0; --count, taken_.pop_back()) close(taken_.back());
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

TEST(DescriptorReserveTest, AreThereWhenNoOthersAre) {
  DescriptorReserve spare(3);
  Hoard hoard;
  EXPECT_EQ(open("/dev/null", O_RDONLY), -1);
  EXPECT_TRUE(DescriptorReserve::IsExhausted(errno));
  EXPECT_TRUE(spare.Release());
  spare.Refill();
  EXPECT_EQ(hoard.TakeAll(), 0u) << "they were taken again";
  EXPECT_TRUE(spare.Release());
  EXPECT_EQ(hoard.TakeAll(), 3u);
}

TEST(DescriptorReserveTest, WhatOthersTookIsTakenAgainLater) {
  Hoard hoard;
  DescriptorReserve spare(2);
  EXPECT_FALSE(spare.Release()) << "there was none to be had";
  hoard.GiveBack(1);
  spare.Refill();
  EXPECT_TRUE(spare.Release());
  EXPECT_EQ(hoard.TakeAll(), 1u);
}

}  // namespace

}  // namespace lockstep
