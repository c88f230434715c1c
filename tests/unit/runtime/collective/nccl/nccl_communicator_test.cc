#include "runtime/collective/nccl/nccl.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/shared_segment.h"
#include "runtime/collective/device.h"
#include "runtime/collective/device_communicator.h"
#include "runtime/collective/folder_rendezvous.h"
#include "runtime/collective/nccl/library.h"
#include "runtime/collective/nccl/nccl_device.h"
#include "runtime/collective/shm/shm.h"
#include "runtime/cuda/gpu.h"
#include "runtime/tensor/arena.h"
#include "tests/fakes/cuda/gate.h"
#include "tests/fakes/nccl/fake_nccl.h"

namespace lockstep::collective::nccl {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 2;
constexpr size_t kMiB = size_t{1} << 20;

Deadline Enough() { return Deadline::After(30s); }

// Two ranks of this process, each with a GPU of its own, whose world is connected.
class NcclCommunicatorTest : public testing::Test {
 protected:
  struct Member {
    std::shared_ptr<tensor::Arena> arena;
    std::shared_ptr<Accelerator> device;
    std::shared_ptr<Communicator> host;
    std::unique_ptr<DeviceWorld> world;

    tensor::Allocator& allocator() const { return device->processor().allocator(); }
    // Of the GPU, that no allocator has.
    size_t FreeBytes() const {
      return cuda::OpenGpu(device->facts().index).value()->Memory()->free_bytes;
    }
  };

  void SetUp() override {
    std::random_device random;
    const std::string prefix = std::string(SharedSegment::kNamePrefix) + "nccl-" +
                               std::to_string(random()) + "-" + std::to_string(random()) + "-";
    for (int rank = 0; rank < kRanks; ++rank) names_.push_back(prefix + std::to_string(rank));
    OnEachRank([&](int rank, Member& self) {
      self.arena = *tensor::Arena::Create({.name = names_[static_cast<size_t>(rank)]});
      shm::Options cpus;
      cpus.rank = rank;
      cpus.arena_names = names_;
      cpus.world = 1;
      cpus.arena = self.arena;
      self.host = *shm::Connect(cpus, Enough());
      DeviceOptions device;
      device.index = rank;
      device.max_communicators = MostOf(rank);
      self.device = *OpenDevice(device);
      Options options;
      UseDevice(*self.device, &options);
      options.host = self.host.get();
      options.rendezvous = std::make_shared<FolderRendezvous>(folder_.path(), rank);
      auto world = Connect(options, Enough());
      ASSERT_TRUE(world.ok()) << world.status();
      self.world = *std::move(world);
    });
  }
  void TearDown() override {
    for (Member& member : members_) member = Member();
    EXPECT_TRUE(AwaitEndings(Enough()));
    EXPECT_EQ(fake_nccl_live_communicators(), 0);
  }

  virtual int MostOf(int) const { return 100; }

  // At the same time, each on a thread that uses its GPU.
  void OnEachRank(const std::function<void(int rank, Member& self)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        Member& self = members_[static_cast<size_t>(rank)];
        if (self.device != nullptr) {
          ASSERT_TRUE(self.device->Bind().ok());
        }
        body(rank, self);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Sums four numbers over the ranks, on their GPUs.
  static Status AllReduce(Member& self, Communicator& communicator) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto memory, self.allocator().Allocate(16));
    const Buffer numbers{memory->data(), 4, DType::kInt32};
    return communicator.AllReduce(numbers, numbers, ReduceOp::kSum, Deadline::After(5s));
  }

  std::vector<std::string> names_;
  RendezvousFolder folder_;
  std::array<Member, kRanks> members_;
};

// What the ranks know of each other's calls costs them no question.
TEST_F(NcclCommunicatorTest, WhatIsAgreedOnIsNotAskedAgain) {
  std::array<std::shared_ptr<DeviceCommunicator>, kRanks> communicators;
  std::array<Agreed, kRanks> agreed;
  OnEachRank([&](int rank, Member& self) {
    const auto r = static_cast<size_t>(rank);
    communicators[r] = self.world->Over(self.host);
    communicators[r]->UseAgreed(&agreed[r]);
    ASSERT_EQ(AllReduce(self, *communicators[r]), OkStatus());
    agreed[r].is_known = true;
  });
  // One after the other: the first does not wait for the second.
  for (size_t r = 0; r < kRanks; ++r) {
    ASSERT_EQ(members_[r].device->Bind(), OkStatus());
    EXPECT_EQ(AllReduce(members_[r], *communicators[r]), OkStatus());
  }
  OnEachRank([&](int rank, Member& self) {
    communicators[static_cast<size_t>(rank)]->UseAgreed(nullptr);
    EXPECT_EQ(AllReduce(self, *communicators[static_cast<size_t>(rank)]), OkStatus());
    communicators[static_cast<size_t>(rank)].reset();
  });
}

// As NCCL demands: first the graph, then the communicator.
TEST_F(NcclCommunicatorTest, ACommunicatorEndsAfterTheGraphThatUsesIt) {
  for (const bool is_aborted : {false, true}) {
    const int live = fake_nccl_live_communicators();
    std::array<std::unique_ptr<DeviceGraph>, kRanks> graphs;
    OnEachRank([&](int rank, Member& self) {
      std::shared_ptr<DeviceCommunicator> communicator = self.world->Over(self.host);
      Agreed agreed;
      communicator->UseAgreed(&agreed);
      ASSERT_EQ(AllReduce(self, *communicator), OkStatus());
      agreed.is_known = true;
      ASSERT_EQ(self.device->BeginCapture(), OkStatus());
      const Status captured = AllReduce(self, *communicator);
      auto graph = self.device->EndCapture();
      ASSERT_EQ(captured, OkStatus());
      ASSERT_TRUE(graph.ok()) << graph.status();
      graphs[static_cast<size_t>(rank)] = *std::move(graph);
      EXPECT_EQ(self.device->Launch(*graphs[static_cast<size_t>(rank)], {}), OkStatus());
      const CommunicationSpan span = self.device->TakeLastCommunication();
      ASSERT_NE(span.ended, nullptr);
      while (!span.ended->IsDone().value()) std::this_thread::yield();
      if (!is_aborted) return graphs[static_cast<size_t>(rank)].reset();
      communicator->connection()->Abort(Aborted("enough"));
      EXPECT_GT(fake_nccl_live_communicators(), live) << "the graph is there";
    });
    for (auto& graph : graphs) graph.reset();
    EXPECT_TRUE(AwaitEndings(Enough()));
    EXPECT_EQ(fake_nccl_live_communicators(), live);
    EXPECT_EQ(fake_nccl_destroyed_before_graphs(), 0);
  }
}

TEST_F(NcclCommunicatorTest, WhatNeedsNoGpuNeedsNoCommunicatorOfNccl) {
  EXPECT_EQ(fake_nccl_live_communicators(), kRanks) << "the world's";
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.world->Over(self.host);
    EXPECT_TRUE(communicator->Barrier(Enough()).ok());
    EXPECT_TRUE(communicator->AgreeOnHostMemory("allreduce", Enough()).ok());
    EXPECT_TRUE(self.host->Barrier(Enough()).ok());
    EXPECT_EQ(fake_nccl_live_communicators(), kRanks);
    EXPECT_TRUE(self.host->Barrier(Enough()).ok());
    EXPECT_TRUE(AllReduce(self, *communicator).ok());
    EXPECT_EQ(fake_nccl_live_communicators(), 2 * kRanks);
    EXPECT_TRUE(self.host->Barrier(Enough()).ok());
  });
}

// Only two ranks know where a message's data lies: all connect before the first.
TEST_F(NcclCommunicatorTest, MessagesTakeThatAllHaveConnected) {
  OnEachRank([&](int rank, Member& self) {
    const auto communicator = self.world->Over(self.host);
    EXPECT_EQ(communicator->connection(), nullptr);
    ASSERT_TRUE(communicator->Connect(Enough()).ok());
    EXPECT_NE(communicator->connection(), nullptr);
    const auto memory = *self.allocator().Allocate(16);
    const Buffer numbers{memory->data(), 4, DType::kInt32};
    const Status moved = rank == 0 ? communicator->Send(numbers, 1, Enough())
                                   : communicator->Recv(numbers, 0, Enough());
    EXPECT_TRUE(moved.ok()) << moved;
    EXPECT_TRUE(self.host->Barrier(Enough()).ok());
  });
}

class FewNcclCommunicatorsTest : public NcclCommunicatorTest {
 protected:
  // The world's, and one more on rank 1.
  int MostOf(int rank) const override { return rank == 1 ? 2 : 10; }
};

TEST_F(FewNcclCommunicatorsTest, OneTooManyIsRefusedOnAllRanksAndNamesTheLimit) {
  OnEachRank([&](int, Member& self) {
    auto first = self.world->Over(self.host);
    EXPECT_TRUE(AllReduce(self, *first).ok());
    const auto second = self.world->Over(self.host);
    const Status refused = second->Connect(Enough());
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
    for (const char* part : {"rank 1 has as many", "max_gpu_communicators"}) {
      EXPECT_NE(Message(refused).find(part), std::string::npos) << refused;
    }
    EXPECT_EQ(second->connection(), nullptr);
    EXPECT_TRUE(AllReduce(self, *first).ok()) << "it goes on";
    EXPECT_TRUE(self.host->Barrier(Enough()).ok());
    // One that ends makes room for another.
    first.reset();
    EXPECT_TRUE(AllReduce(self, *self.world->Over(self.host)).ok());
    EXPECT_TRUE(self.host->Barrier(Enough()).ok());
  });
}

TEST_F(NcclCommunicatorTest, AnAbortWhileItConnectsEndsThat) {
  OnEachRank([&](int rank, Member& self) {
    if (rank == 1) return;
    const auto communicator = self.world->Over(self.host);
    std::thread aborter([&] {
      std::this_thread::sleep_for(20ms);
      communicator->Abort(Aborted("by the test"));
    });
    const Status ended = AllReduce(self, *communicator);
    aborter.join();
    EXPECT_NE(Message(ended).find("by the test"), std::string::npos) << ended;
  });
}

// Why is what the session tells; that the GPUs were not connected either is not.
TEST_F(NcclCommunicatorTest, AnAbortBeforeItConnectsIsTheCause) {
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.world->Over(self.host);
    communicator->Abort(Aborted("by the test"));
    EXPECT_EQ(communicator->Connect(Enough()), Aborted("by the test"));
  });
}

// Before 2.30 NCCL takes them for one GPU.
TEST_F(NcclCommunicatorTest, SlicesOfAGpuConnectWhereNcclTellsThemApart) {
  setenv("FAKE_CUDA_SLICES", "2", 1);
  for (Member& member : members_) member.device = nullptr;
  OnEachRank([&](int rank, Member& self) {
    DeviceOptions device;
    device.index = rank;
    self.device = *OpenDevice(device);
    Options options;
    UseDevice(*self.device, &options);
    options.host = self.host.get();
    options.rendezvous = std::make_shared<FolderRendezvous>(folder_.path(), rank);
    options.key = 7;
    const auto world = Connect(options, Enough());
    if ((*LoadLibrary(""))->version >= 23000) {
      EXPECT_TRUE(world.ok()) << world.status();
      return;
    }
    EXPECT_EQ(world.status().code(), StatusCode::kFailedPrecondition) << world.status();
    for (const char* part : {"ranks 0 and 1 have slices", "0000:00:00.0", "2.30"}) {
      EXPECT_NE(Message(world.status()).find(part), std::string::npos) << world.status();
    }
  });
  unsetenv("FAKE_CUDA_SLICES");
}

// NCCL allocates with the first collective, long after it was connected.
TEST_F(NcclCommunicatorTest, AFirstCollectiveFindsTheMemoryThatTensorsNoLongerUse) {
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.world->Over(self.host);
    // The pool keeps it when it is freed.
    ASSERT_TRUE(self.allocator().Allocate(self.FreeBytes() - 1000).ok());
    const Status summed = AllReduce(self, *communicator);
    EXPECT_TRUE(summed.ok()) << summed;
  });
}

TEST_F(NcclCommunicatorTest, AFirstCollectiveWaitsForMemoryThatIsOnItsWayBack) {
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.world->Over(self.host);
    auto* const stream = self.device->compute_stream();
    fake_cuda::Gate kernel(stream);
    ASSERT_TRUE(self.allocator().Allocate(self.FreeBytes() - 1000).ok());
    std::thread opener([&] {
      std::this_thread::sleep_for(20ms);
      kernel.Open();
    });
    const Status summed = AllReduce(self, *communicator);
    opener.join();
    EXPECT_TRUE(summed.ok()) << summed;
  });
}

// A GPU that is half full is no reason to wait.
TEST_F(NcclCommunicatorTest, AFirstCollectiveDoesNotWaitForAKernelWhereThereIsMemory) {
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.world->Over(self.host);
    fake_cuda::Gate kernel(self.device->compute_stream());
    ASSERT_TRUE(self.allocator().Allocate(self.FreeBytes() / 2).ok());
    const auto began = Deadline::Clock::now();
    EXPECT_TRUE(AllReduce(self, *communicator).ok());
    EXPECT_LT(Deadline::Clock::now() - began, 4s);
    kernel.Open();
    EXPECT_TRUE(self.host->Barrier(Enough()).ok());
    // The gate outlives the stream's coming to it.
    self.device->processor().SetWaitLimit({Enough()});
    int number = 0;
    const auto memory = *self.allocator().Allocate(4);
    EXPECT_TRUE(self.device->processor().ToHost(&number, memory->data(), 4).ok());
  });
}

TEST_F(NcclCommunicatorTest, NoMemoryForNcclIsResourceExhaustedAndSaysWhatToDo) {
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.world->Over(self.host);
    const auto held = self.allocator().Allocate(self.FreeBytes() - kMiB / 2);
    ASSERT_TRUE(held.ok()) << held.status();
    const Status refused = AllReduce(self, *communicator);
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
    for (const char* part : {"ncclAllReduce", "1048576 bytes", "device_memory_bytes"}) {
      EXPECT_NE(Message(refused).find(part), std::string::npos) << refused;
    }
    communicator->Abort(refused);
  });
}

}  // namespace
}  // namespace lockstep::collective::nccl
