#include "services/worker/backends.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/base/shared_segment.h"
#include "runtime/collective/folder_rendezvous.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class BackendsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (Rank rank = 0; rank < 2; ++rank) {
      auto arena = tensor::Arena::Create(
          {.name = std::string(SharedSegment::kNamePrefix) + "backends-" + RandomHex(8),
           .capacity_bytes = 16 << 20});
      ASSERT_TRUE(arena.ok()) << arena.status();
      arenas_.push_back(*std::move(arena));
    }
  }
  // The names that a welcome would tell.
  std::vector<std::string> Segments() const {
    std::vector<std::string> segments;
    for (const auto& arena : arenas_) segments.push_back(arena->name());
    return segments;
  }
  StatusOr<ConnectedWorld> Connect(Rank rank, const std::vector<std::string>& segments,
                                   const std::string& communicator = "auto") {
    Membership membership;
    membership.rank = rank;
    membership.epoch = Epoch(3);
    membership.segments = segments;
    membership.communicator = communicator;
    WorldOptions options;
    options.arena = arenas_[static_cast<size_t>(rank)];
    options.rendezvous = std::make_shared<collective::FolderRendezvous>(folder_.path(), rank);
    options.data_address = [this, rank](const std::string& backend, bool can_encrypt) {
      EXPECT_EQ(can_encrypt, backend == "tcp");
      return data_address_(rank);
    };
    options.data_encryption = data_encryption_;
    options.data_plaintext = data_plaintext_;
    options.with_gpus = with_gpus_;
    options.on_trouble = [this](const Status& why) { on_trouble_(why); };
    return ConnectWorld(membership, options, cancelled_, Deadline::After(1h));
  }
  // Both ranks connect.
  std::vector<StatusOr<ConnectedWorld>> ConnectBoth(const std::vector<std::string>& segments,
                                                    const std::string& communicator = "auto") {
    std::vector<StatusOr<ConnectedWorld>> worlds(2);
    std::thread other([&] { worlds[1] = Connect(1, segments, communicator); });
    worlds[0] = Connect(0, segments, communicator);
    other.join();
    return worlds;
  }

  const collective::RendezvousFolder folder_;
  std::vector<std::shared_ptr<tensor::Arena>> arenas_;
  std::atomic<bool> cancelled_{false};
  std::function<StatusOr<std::string>(Rank)> data_address_ = [](Rank) { return "127.0.0.1"; };
  std::string data_encryption_ = "auto";
  std::string data_plaintext_ = "loopback";
  bool with_gpus_ = false;
  std::function<void(const Status&)> on_trouble_ = [](const Status& why) { ADD_FAILURE() << why; };
};

TEST_F(BackendsTest, RanksOfOneHostAreConnectedBySharedMemory) {
  for (const auto& world : ConnectBoth(Segments())) {
    ASSERT_TRUE(world.ok()) << world.status();
    EXPECT_EQ(world->communicator->size(), 2);
    EXPECT_EQ(world->communicator->backend(), "shm");
    EXPECT_EQ(world->why, "all ranks map each other's memory");
  }
}

// Here it is a name that no segment has; elsewhere it is another host's memory.
TEST_F(BackendsTest, RanksThatShareNoMemoryAreConnectedByTheNetwork) {
  std::vector<std::string> segments = Segments();
  segments[1] += "-elsewhere";
  for (const auto& world : ConnectBoth(segments)) {
    ASSERT_TRUE(world.ok()) << world.status();
    EXPECT_EQ(world->communicator->size(), 2);
    EXPECT_EQ(world->communicator->backend(), "tcp");
    EXPECT_THAT(world->why, HasSubstr("rank 0 cannot map the memory of rank 1: "));
  }
}

TEST_F(BackendsTest, EncryptionIsToldOf) {
  data_encryption_ = "on";
  for (const auto& world : ConnectBoth(Segments(), "tcp")) {
    ASSERT_TRUE(world.ok()) << world.status();
    EXPECT_EQ(world->why, "the controller is set to tcp; tcp is encrypted");
  }
}

// It sends as it likes, and nobody sees where to.
TEST_F(BackendsTest, MpiIsRefusedBetweenHostsWhereAllIsToBeEncrypted) {
  std::vector<std::string> apart = Segments();
  apart[1] += "-elsewhere";
  data_encryption_ = "on";
  for (const auto& world : ConnectBoth(apart, "mpi")) {
    EXPECT_EQ(world.status().code(), StatusCode::kPermissionDenied) << world.status();
    EXPECT_THAT(Message(world.status()), HasSubstr("MPI does not encrypt"));
  }
  // Then it is only no job.
  data_plaintext_ = "network";
  for (const auto& world : ConnectBoth(apart, "mpi")) {
    EXPECT_EQ(world.status().code(), StatusCode::kFailedPrecondition) << world.status();
  }
}

TEST_F(BackendsTest, GpusOfSeveralHostsAreRefusedWhereNcclMustStayOnItsOwn) {
  std::vector<std::string> apart = Segments();
  apart[1] += "-elsewhere";
  with_gpus_ = true;
  data_address_ = [](Rank) { return "192.0.2.1"; };
  for (const auto& world : ConnectBoth(apart)) {
    EXPECT_EQ(world.status().code(), StatusCode::kPermissionDenied) << world.status();
    EXPECT_THAT(Message(world.status()), HasSubstr("set data_plaintext: network"));
  }
}

// Else the others would wait for it where it never comes.
TEST_F(BackendsTest, WhatOneRankLacksForAWhileIsToldToAllWhoTryAgain) {
  std::atomic<int> asked{0};
  std::atomic<int> told{0};
  data_address_ = [&](Rank rank) -> StatusOr<std::string> {
    if (rank == 1 && asked++ == 0) return Unavailable("no such name: controller.test");
    return std::string("127.0.0.1");
  };
  on_trouble_ = [&](const Status& why) {
    ++told;
    EXPECT_THAT(Message(why), HasSubstr("no such name: controller.test"));
  };
  for (const auto& world : ConnectBoth(Segments(), "gloo")) {
    ASSERT_TRUE(world.ok()) << world.status();
    EXPECT_EQ(world->communicator->backend(), "gloo");
  }
  EXPECT_EQ(told, 2);
}

// It has nothing to offer the others, who would wait for that, and name it as one that did not
// come.
TEST_F(BackendsTest, WhyARankCannotListenIsToldAtOnceToAllWhoTryAgain) {
  std::atomic<int> asked{0};
  std::atomic<int> told{0};
  data_address_ = [&](Rank rank) -> StatusOr<std::string> {
    return std::string(rank == 1 && asked++ == 0 ? "203.0.113.9" : "127.0.0.1");
  };
  on_trouble_ = [&](const Status& why) {
    ++told;
    EXPECT_THAT(Message(why), HasSubstr("cannot listen at \"203.0.113.9\""));
  };
  const auto begin = Deadline::Clock::now();
  for (const auto& world : ConnectBoth(Segments(), "gloo")) {
    ASSERT_TRUE(world.ok()) << world.status();
  }
  EXPECT_EQ(told, 2);
  EXPECT_LT(Deadline::Clock::now() - begin, 8s);  // a try takes 10 s where ranks wait in it
}

TEST_F(BackendsTest, TheOperatorsChoiceIsTaken) {
  for (const std::string chosen : {"gloo", "tcp"}) {
    for (const auto& world : ConnectBoth(Segments(), chosen)) {
      ASSERT_TRUE(world.ok()) << world.status();
      EXPECT_EQ(world->communicator->backend(), chosen);
      EXPECT_EQ(world->why, "the controller is set to " + chosen);
    }
  }
  std::vector<std::string> apart = Segments();
  apart[1] += "-elsewhere";
  for (const auto& world : ConnectBoth(apart, "shm+gloo")) {
    ASSERT_TRUE(world.ok()) << world.status();
    EXPECT_EQ(world->communicator->backend(), "gloo") << "each is a node of one rank";
    EXPECT_THAT(world->why, HasSubstr("set to shm+gloo, and rank 0 cannot map the memory"));
  }
}

TEST_F(BackendsTest, AWrongChoiceIsRefusedWithTheReason) {
  std::vector<std::string> segments = Segments();
  segments[1] += "-elsewhere";
  for (const auto& world : ConnectBoth(segments, "shm")) {
    EXPECT_EQ(world.status().code(), StatusCode::kFailedPrecondition) << world.status();
    EXPECT_THAT(Message(world.status()), HasSubstr("rank 0 cannot map the memory of rank 1: "));
  }
}

// All are told what is missing on one of them.
TEST_F(BackendsTest, RanksOutsideOfAnMpiJobAreNotConnectedByMpi) {
  for (const auto& world : ConnectBoth(Segments(), "mpi")) {
    EXPECT_EQ(world.status().code(), StatusCode::kFailedPrecondition) << world.status();
    EXPECT_THAT(Message(world.status()),
                HasSubstr("the ranks cannot be connected by mpi: ranks 0, 1: "));
  }
}

TEST_F(BackendsTest, ANodeNeedsNoNetworkBesideSharedMemory) {
  for (const auto& world : ConnectBoth(Segments(), "shm+mpi")) {
    ASSERT_TRUE(world.ok()) << world.status();
    EXPECT_EQ(world->communicator->backend(), "shm");
    EXPECT_EQ(world->why,
              "the controller is set to shm+mpi, and all ranks map each other's memory");
  }
}

TEST_F(BackendsTest, WaitForPeersCanBeCancelled) {
  std::thread canceller([&] { cancelled_ = true; });
  EXPECT_EQ(Connect(0, Segments()).status().code(), StatusCode::kAborted);
  canceller.join();
}

}  // namespace
}  // namespace lockstep::worker
