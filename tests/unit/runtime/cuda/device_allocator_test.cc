#include "runtime/cuda/device_allocator.h"

#include "tests/unit/runtime/cuda/gpu_under_test.h"
#ifdef LOCKSTEP_FAKE_GPU
#include <thread>

#include "tests/fakes/cuda/gate.h"
#endif

namespace lockstep::cuda {
namespace {

class DeviceAllocatorTest : public GpuTest {};

TEST_F(DeviceAllocatorTest, CountsWhatItHandsOutAndTakesBack) {
  auto first = Allocate(1000);
  const auto second = Allocate(0);
  EXPECT_EQ(first->size_bytes(), 1000u);
  EXPECT_EQ(first->device(), (Device{DeviceType::kCuda, 0}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->data()) % 256, 0u);
  EXPECT_NE(second->data(), nullptr);
  EXPECT_NE(second->data(), first->data());
  tensor::AllocatorStats stats = allocator_->Stats();
  EXPECT_EQ(stats.live_bytes, 1000u);
  EXPECT_EQ(stats.live_blocks, 2u);
  EXPECT_EQ(stats.allocations, 2u);
  EXPECT_GE(stats.reserved_bytes, 1000u);
  first.reset();
  stats = allocator_->Stats();
  EXPECT_EQ(stats.live_bytes, 0u);
  EXPECT_EQ(stats.live_blocks, 1u);
  EXPECT_EQ(stats.peak_bytes, 1000u);
}

TEST_F(DeviceAllocatorTest, TooMuchIsRefusedAndTellsWhoHoldsWhat) {
  const auto limited = DeviceAllocator::Create(
      streams_, {.limit_bytes = 5000, .describe_memory_use = [] { return "session 7 has 3000"; }});
  ASSERT_TRUE(limited.ok());
  const auto held = (*limited)->Allocate(3000);
  ASSERT_TRUE(held.ok());
  const auto refused = (*limited)->Allocate(3000);
  ASSERT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  for (const char* part : {"cannot allocate 2.9 KiB", "2.9 KiB in 1 blocks", "session 7 has 3000",
                           "device_memory_bytes"}) {
    EXPECT_NE(Message(refused.status()).find(part), std::string::npos) << refused.status();
  }
  EXPECT_TRUE((*limited)->Allocate(2000).ok()) << "what fits is still given";
  EXPECT_EQ((*limited)->Allocate(SIZE_MAX).status().code(), StatusCode::kResourceExhausted);
}

TEST_F(DeviceAllocatorTest, WhatTheGpuDoesNotHaveIsRefusedAndItGoesOn) {
  const auto refused = allocator_->Allocate(gpu_->facts().memory_bytes + 1);
  ASSERT_EQ(refused.status().code(), StatusCode::kResourceExhausted) << refused.status();
  EXPECT_NE(Message(refused.status()).find("are free"), std::string::npos) << refused.status();
  EXPECT_TRUE(gpu_->Loss().ok()) << gpu_->Loss();
  EXPECT_TRUE(allocator_->Allocate(1000).ok());
}

TEST_F(DeviceAllocatorTest, WaitsForMemoryThatIsOnItsWayBack) {
  const size_t most = gpu_->Memory()->free_bytes / 4 * 3;
  for (int i = 0; i < 5; ++i) {
    const auto storage = allocator_->Allocate(most);
    ASSERT_TRUE(storage.ok()) << i << ": " << storage.status();
  }
}

#ifdef LOCKSTEP_FAKE_GPU
// How a test sees whether MakeRoom() waits: the kernel that holds the memory does not end before
// the limit.
class MakeRoomTest : public GpuTest {
 protected:
  void SetUp() override {
    // What other tests have freed may be on its way back, and the GPU's pool keeps it.
    const Deadline deadline = Enough().deadline;
    while (fake_cuda_allocated_bytes() > 0) {
      ASSERT_FALSE(deadline.Expired());
      std::this_thread::yield();
    }
    GpuTest::SetUp();
    ASSERT_TRUE(allocator_->pool()->Trim(0).ok());
  }
  bool Waits(size_t least_bytes) {
    bool was_asked = false;
    allocator_->MakeRoom(SIZE_MAX, least_bytes, {Enough().deadline, [&]() -> Status {
                                                   was_asked = true;
                                                   return Aborted("by the test");
                                                 }});
    return was_asked;
  }
};

TEST_F(MakeRoomTest, WaitsOnlyWhereThatGivesWhatIsMissing) {
  const size_t all = gpu_->Memory()->free_bytes;
  const auto kept = Allocate(all / 2);
  auto freed = Allocate(all / 4);
  fake_cuda::Gate kernel(streams_->compute().handle());
  EXPECT_FALSE(Waits(all / 8)) << "there is enough";
  EXPECT_FALSE(Waits(all / 2)) << "tensors have it, and keep it";
  freed.reset();
  EXPECT_TRUE(Waits(all / 2 - (1 << 20))) << "the kernel has it, and lets it go";
  EXPECT_FALSE(Waits(all / 2 + (1 << 20)))
      << "also with what the kernel has it would not be enough";
  kernel.Open();
  (void)Get<int>(kept->data(), 1);
}
#endif

TEST_F(DeviceAllocatorTest, MemoryThatCommunicationUsesOutlivesItsStorage) {
  const std::vector<int> numbers(1000, 42);
  auto source = Put(numbers);
  const auto result = Allocate(4000);
#ifdef LOCKSTEP_FAKE_GPU
  // Communication is late: it comes when everything else has been asked for.
  fake_cuda::Gate gate(streams_->communication().handle());
#endif
  ASSERT_TRUE(streams_->BeginCommunication().ok());
  ASSERT_TRUE(streams_->communication().Copy(result->data(), source->data(), 4000).ok());
  const collective::MemoryRange used[] = {RangeOf(*source), RangeOf(*result)};
  ASSERT_TRUE(streams_->EndCommunication(used).ok());
  source.reset();
  const auto overwriting = Put(std::vector<int>(1000, -1));
  ASSERT_TRUE(streams_->BeforeCompute(RangeOf(*result)).ok());
#ifdef LOCKSTEP_FAKE_GPU
  gate.Open();
#endif
  EXPECT_EQ(Get<int>(result->data(), 1000), numbers);
}

}  // namespace
}  // namespace lockstep::cuda
