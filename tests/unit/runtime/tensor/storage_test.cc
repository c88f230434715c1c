#include "runtime/tensor/storage.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace lockstep::tensor {
namespace {

TEST(HeapAllocatorTest, StorageIsAlignedAndWritable) {
  const auto heap = NewHeapAllocator();
  for (const size_t size : {0, 1, 1000, 1 << 20}) {
    const auto storage = *heap->Allocate(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(storage->data()) % Allocator::kAlignment, 0u);
    EXPECT_EQ(storage->size_bytes(), size);
    std::memset(storage->data(), 1, size);
  }
}

TEST(HeapAllocatorTest, StatsFollowTheStorages) {
  const auto heap = NewHeapAllocator();
  {
    const auto storage = *heap->Allocate(100);
    EXPECT_EQ(heap->Stats().live_bytes, 100u);
    EXPECT_EQ(heap->Stats().reserved_bytes, 100u);
  }
  EXPECT_EQ(heap->Stats().live_bytes, 0u);
  EXPECT_EQ(heap->Stats().live_blocks, 0u);
  EXPECT_EQ(heap->Stats().peak_bytes, 100u);
  EXPECT_EQ(heap->Stats().allocations, 1u);
}

TEST(HeapAllocatorTest, StorageOutlivesTheAllocator) {
  auto heap = NewHeapAllocator();
  const auto storage = *heap->Allocate(100);
  heap.reset();
  std::memset(storage->data(), 1, 100);
}

TEST(HeapAllocatorTest, AbsurdSizesAreExhausted) {
  const auto heap = NewHeapAllocator();
  const Status status = heap->Allocate(SIZE_MAX - 10).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(Message(status).find("16384 PiB"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::tensor
