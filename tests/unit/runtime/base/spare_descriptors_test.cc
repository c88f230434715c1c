#include "runtime/base/spare_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace lockstep {
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

TEST(SpareDescriptorsTest, AreThereWhenNoOthersAre) {
  SpareDescriptors spare(3);
  Hoard hoard;
  EXPECT_EQ(open("/dev/null", O_RDONLY), -1);
  EXPECT_TRUE(SpareDescriptors::AreWanted(errno));
  EXPECT_TRUE(spare.Release());
  spare.Refill();
  EXPECT_EQ(hoard.TakeAll(), 0u) << "they were taken again";
  EXPECT_TRUE(spare.Release());
  EXPECT_EQ(hoard.TakeAll(), 3u);
}

TEST(SpareDescriptorsTest, WhatOthersTookIsTakenAgainLater) {
  Hoard hoard;
  SpareDescriptors spare(2);
  EXPECT_FALSE(spare.Release()) << "there was none to be had";
  hoard.GiveBack(1);
  spare.Refill();
  EXPECT_TRUE(spare.Release());
  EXPECT_EQ(hoard.TakeAll(), 1u);
}

}  // namespace
}  // namespace lockstep
