#include "services/worker/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/shared_segment.h"
#include "runtime/control/host.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class BackendsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (Rank rank = 0; rank < 2; ++rank) {
      auto arena = tensor::Arena::Create(
          {.name = std::string(SharedSegment::kNamePrefix) + "backends-" + control::RandomHex(8),
           .capacity_bytes = 16 << 20});
      ASSERT_TRUE(arena.ok()) << arena.status();
      arenas_.push_back(*std::move(arena));
    }
  }
  StatusOr<std::unique_ptr<collective::Communicator>> Connect(Rank rank) {
    Place place;
    place.rank = rank;
    place.epoch = Epoch(3);
    for (const auto& arena : arenas_) place.segments.push_back(arena->name());
    return ConnectWorld(place, arenas_[static_cast<size_t>(rank)], cancelled_, Deadline::After(1h));
  }

  std::vector<std::shared_ptr<tensor::Arena>> arenas_;
  std::atomic<bool> cancelled_{false};
};

TEST_F(BackendsTest, RanksOfOneHostAreConnected) {
  std::thread other([&] { EXPECT_TRUE(Connect(1).ok()); });
  const auto world = Connect(0);
  other.join();
  ASSERT_TRUE(world.ok()) << world.status();
  EXPECT_EQ((*world)->size(), 2);
  EXPECT_EQ((*world)->backend(), "shm");
}

TEST_F(BackendsTest, WaitForPeersCanBeCancelled) {
  std::thread canceller([&] { cancelled_ = true; });
  EXPECT_EQ(Connect(0).status().code(), StatusCode::kAborted);
  canceller.join();
}

TEST_F(BackendsTest, PeerThatEndedIsNamed) {
  // The name is known to the others, as a welcome would have told them.
  const std::string name = arenas_[1]->name();
  arenas_[1].reset();
  Place place;
  place.segments = {arenas_[0]->name(), name};
  const auto world = ConnectWorld(place, arenas_[0], cancelled_, Deadline::After(1h));
  EXPECT_EQ(world.status().code(), StatusCode::kUnavailable) << world.status();
  EXPECT_THAT(Message(world.status()), HasSubstr("rank 1: ended"));
}

}  // namespace
}  // namespace lockstep::worker
