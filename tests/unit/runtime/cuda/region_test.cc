#include "runtime/cuda/region.h"

#include "tests/unit/runtime/cuda/gpu_under_test.h"
#ifdef LOCKSTEP_FAKE_GPU

#include "tests/fakes/cuda/gate.h"
#endif

namespace lockstep::cuda {
namespace {

constexpr size_t kBytes = 64 << 10;

class RegionTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (gpu_ == nullptr) return;
    owner_ = Allocate(kBytes);
    region_ = std::make_shared<Region>(streams_, RangeOf(*owner_), owner_);
  }
  void* Take(size_t size_bytes) {
    const auto taken = region_->Allocate(size_bytes);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() ? *taken : nullptr;
  }
  void Free(void* address, Stream& stream) {
    const Status freed = region_->Free(address, stream);
    EXPECT_TRUE(freed.ok()) << freed;
  }

  std::shared_ptr<tensor::Storage> owner_;
  std::shared_ptr<Region> region_;
};

TEST_F(RegionTest, HandsOutAlignedPartsUntilThereIsNoRoom) {
  std::vector<void*> parts;
  while (void* const part = Take(1000)) {
    EXPECT_TRUE(region_->Contains(part));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(part) % Region::kAlignment, 0u);
    parts.push_back(part);
  }
  EXPECT_EQ(parts.size(), kBytes / 1024);
  EXPECT_EQ(region_->live_bytes(), kBytes);
  EXPECT_EQ(Take(kBytes + 1), nullptr);
  EXPECT_FALSE(region_->Contains(static_cast<std::byte*>(owner_->data()) + kBytes));
  for (void* const part : parts) Free(part, streams_->compute());
  EXPECT_EQ(region_->live_bytes(), 0u);
  EXPECT_NE(Take(kBytes), nullptr) << "the parts have become one again";
}

TEST_F(RegionTest, WhatWasFreedTwiceIsRefused) {
  void* const part = Take(10);
  Free(part, streams_->compute());
  EXPECT_EQ(region_->Free(part, streams_->compute()).code(), StatusCode::kInternal);
}

TEST_F(RegionTest, TensorsHaveItFirstAndThenThePool) {
  const auto allocator = DeviceAllocator::Create(streams_);
  ASSERT_TRUE(allocator.ok());
  (*allocator)->UseFirst(region_);
  auto first = (*allocator)->Allocate(kBytes / 2);
  auto second = (*allocator)->Allocate(kBytes);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(region_->Contains((*first)->data()));
  EXPECT_FALSE(region_->Contains((*second)->data()));
  EXPECT_GE((*allocator)->Stats().reserved_bytes, kBytes + kBytes);
  first->reset();
  second->reset();
  EXPECT_EQ(region_->live_bytes(), 0u);
  EXPECT_EQ((*allocator)->Stats().live_bytes, 0u);
}

#ifdef LOCKSTEP_FAKE_GPU
TEST_F(RegionTest, WhatCommunicationUsesIsGivenToNobodyElseBefore) {
  const auto allocator = DeviceAllocator::Create(streams_);
  ASSERT_TRUE(allocator.ok());
  (*allocator)->UseFirst(region_);
  auto storage = (*allocator)->Allocate(kBytes);
  ASSERT_TRUE(storage.ok());
  fake_cuda::Gate gate(streams_->communication().handle());
  ASSERT_TRUE(streams_->BeginCommunication().ok());
  const collective::MemoryRange used[] = {RangeOf(**storage)};
  ASSERT_TRUE(streams_->EndCommunication(used).ok());
  storage->reset();
  EXPECT_EQ(Take(kBytes), nullptr) << "the communication is not done";
  gate.Open();
  const Deadline deadline = Deadline::After(std::chrono::seconds(30));
  void* again = nullptr;
  while (again == nullptr && !deadline.Expired()) again = Take(kBytes);
  EXPECT_EQ(again, owner_->data());
}
#endif

}  // namespace
}  // namespace lockstep::cuda
