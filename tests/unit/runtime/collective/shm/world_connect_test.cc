#include "runtime/collective/shm/shm_world.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>

namespace lockstep::collective::shm {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kLong = 20s;

class WorldConnectTest : public testing::Test {
 protected:
  void SetUp() override {
    std::random_device random;
    prefix_ = std::string(SharedSegment::kNamePrefix) + "world-test-" + std::to_string(random()) +
              std::to_string(random()) + "-";
    auto arena = tensor::Arena::Create({.name = prefix_ + "0", .capacity_bytes = 16 << 20});
    ASSERT_TRUE(arena.ok()) << arena.status();
    options_.arena = *arena;
    options_.arena_names = {prefix_ + "0", prefix_ + "1"};
  }
  void TearDown() override { unlink(("/dev/shm/" + prefix_ + "1").c_str()); }

  Status Connect(Deadline deadline) {
    return ShmWorld::Connect(options_, &cancelled_, deadline).status();
  }

  std::string prefix_;
  Options options_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(WorldConnectTest, ArenaThatIsNotThereYetIsWaitedFor) {
  const Status status = Connect(Deadline::After(20ms));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 1"));
}

TEST_F(WorldConnectTest, ArenaThatWasThereIsNot) {
  options_.arenas_exist = true;
  const Status status = Connect(Deadline::After(1h));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 1: ended"));
}

// What a killed process leaves behind, unless it has been swept meanwhile.
TEST_F(WorldConnectTest, ArenaThatNobodyHoldsIsNotWaitedFor) {
  const int fd = open(("/dev/shm/" + prefix_ + "1").c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, 16 << 20), 0);
  close(fd);
  options_.arenas_exist = true;
  const Status status = Connect(Deadline::After(1h));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(Message(status), HasSubstr("rank 1: ended"));
}

TEST_F(WorldConnectTest, WaitCanBeCancelled) {
  std::thread canceller([&] { cancelled_ = true; });
  EXPECT_EQ(Connect(Deadline::After(1h)).code(), StatusCode::kAborted);
  canceller.join();
}

TEST_F(WorldConnectTest, RankThatIsThereButHasNotConnectedCanBeLeftWaiting) {
  const auto peer = tensor::Arena::Create({.name = prefix_ + "1", .capacity_bytes = 16 << 20});
  ASSERT_TRUE(peer.ok()) << peer.status();
  options_.arenas_exist = true;
  // Longer than a look at whether it lives: it does.
  EXPECT_EQ(Connect(Deadline::After(500ms)).code(), StatusCode::kDeadlineExceeded);
  std::thread canceller([&] { cancelled_ = true; });
  EXPECT_EQ(Connect(Deadline::After(1h)).code(), StatusCode::kAborted);
  canceller.join();
}

}  // namespace
}  // namespace lockstep::collective::shm
