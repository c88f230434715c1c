#include "runtime/collective/nccl/nccl.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
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
    StatusOr<std::unique_ptr<DeviceCommunicator>> Over() const {
      return world->Over(host, Enough(), nullptr);
    }
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

// NCCL allocates with the first collective, long after it was connected.
TEST_F(NcclCommunicatorTest, AFirstCollectiveFindsTheMemoryThatTensorsNoLongerUse) {
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.Over();
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    // The pool keeps it when it is freed.
    ASSERT_TRUE(self.allocator().Allocate(self.FreeBytes() - 1000).ok());
    const Status summed = AllReduce(self, **communicator);
    EXPECT_TRUE(summed.ok()) << summed;
  });
}

TEST_F(NcclCommunicatorTest, AFirstCollectiveWaitsForMemoryThatIsOnItsWayBack) {
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.Over();
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    auto* const stream = self.device->compute_stream();
    fake_cuda::Gate kernel(stream);
    ASSERT_TRUE(self.allocator().Allocate(self.FreeBytes() - 1000).ok());
    std::thread opener([&] {
      std::this_thread::sleep_for(20ms);
      kernel.Open();
    });
    const Status summed = AllReduce(self, **communicator);
    opener.join();
    EXPECT_TRUE(summed.ok()) << summed;
  });
}

TEST_F(NcclCommunicatorTest, NoMemoryForNcclIsResourceExhaustedAndSaysWhatToDo) {
  OnEachRank([&](int, Member& self) {
    const auto communicator = self.Over();
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    const auto held = self.allocator().Allocate(self.FreeBytes() - kMiB / 2);
    ASSERT_TRUE(held.ok()) << held.status();
    const Status refused = AllReduce(self, **communicator);
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
    for (const char* part : {"ncclAllReduce", "1048576 bytes", "device_memory_bytes"}) {
      EXPECT_NE(Message(refused).find(part), std::string::npos) << refused;
    }
    (*communicator)->Abort(refused);
  });
}

}  // namespace
}  // namespace lockstep::collective::nccl
