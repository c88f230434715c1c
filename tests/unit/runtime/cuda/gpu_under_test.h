// A GPU, its streams and memory, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/cuda/device_allocator.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/host_copier.h"
#include "runtime/cuda/stream_pair.h"
#include "tests/support/gpu.h"

namespace lockstep::cuda {

// collective::WaitLimit that only a test which hangs runs out of.
inline collective::WaitLimit Enough() { return {Deadline::After(std::chrono::seconds(30))}; }

inline collective::MemoryRange RangeOf(const tensor::Storage& storage) {
  return {storage.data(), storage.size_bytes()};
}

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    LOCKSTEP_SKIP_WITHOUT_GPU();
    const auto gpu = OpenGpu(0);
    ASSERT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = *gpu;
    auto streams = StreamPair::Create(gpu_);
    ASSERT_TRUE(streams.ok()) << streams.status();
    streams_ = *std::move(streams);
    auto allocator = DeviceAllocator::Create(streams_);
    ASSERT_TRUE(allocator.ok()) << allocator.status();
    allocator_ = *allocator;
    auto copier = HostCopier::Create(gpu_, allocator_->pool());
    ASSERT_TRUE(copier.ok()) << copier.status();
    copier_ = *std::move(copier);
  }

  std::shared_ptr<tensor::Storage> Allocate(size_t size_bytes) {
    auto storage = allocator_->Allocate(size_bytes);
    EXPECT_TRUE(storage.ok()) << storage.status();
    return storage.ok() ? *storage : nullptr;
  }
  // With these elements in it.
  template <typename T>
  std::shared_ptr<tensor::Storage> Put(const std::vector<T>& elements) {
    auto storage = Allocate(elements.size() * sizeof(T));
    EXPECT_TRUE(copier_
                    ->ToGpu(streams_->compute(), storage->data(), elements.data(),
                            elements.size() * sizeof(T), Enough())
                    .ok());
    return storage;
  }
  // What is there once all that was computed so far is done.
  template <typename T>
  std::vector<T> Get(const void* address, size_t count) {
    std::vector<T> elements(count);
    const Status copied = copier_->FromGpu(streams_->compute(), elements.data(), address,
                                           count * sizeof(T), Enough());
    EXPECT_TRUE(copied.ok()) << copied;
    return elements;
  }

  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<StreamPair> streams_;
  std::unique_ptr<HostCopier> copier_;
  std::shared_ptr<DeviceAllocator> allocator_;
};

}  // namespace lockstep::cuda
