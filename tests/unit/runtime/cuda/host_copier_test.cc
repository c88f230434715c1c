#include "runtime/cuda/host_copier.h"

#include <random>

#include "tests/unit/runtime/cuda/gpu_under_test.h"

namespace lockstep::cuda {
namespace {

std::vector<uint32_t> Random(size_t count) {
  std::mt19937 random(7);
  std::vector<uint32_t> numbers(count);
  for (uint32_t& number : numbers) number = static_cast<uint32_t>(random());
  return numbers;
}

class HostCopierTest : public GpuTest {};

TEST_F(HostCopierTest, CopiesMoreThanItsChunksHold) {
  for (const size_t bytes :
       {size_t{4}, HostCopier::kChunkBytes, HostCopier::kChunkBytes + 4,
        HostCopier::kChunks * HostCopier::kChunkBytes, 7 * HostCopier::kChunkBytes + 12}) {
    const auto numbers = Random(bytes / 4);
    EXPECT_EQ(Get<uint32_t>(Put(numbers)->data(), numbers.size()), numbers) << bytes;
  }
}

TEST_F(HostCopierTest, TheSourceMayChangeAsSoonAsItReturns) {
  auto numbers = Random(100'000);
  const auto before = numbers;
  const auto memory = Put(numbers);
  std::fill(numbers.begin(), numbers.end(), 0);
  EXPECT_EQ(Get<uint32_t>(memory->data(), before.size()), before);
}

TEST_F(HostCopierTest, NothingIsCopiedForNoBytes) {
  EXPECT_TRUE(copier_->ToGpu(streams_->compute(), nullptr, nullptr, 0, Enough()).ok());
  EXPECT_TRUE(copier_->FromGpu(streams_->compute(), nullptr, nullptr, 0, Enough()).ok());
}

}  // namespace
}  // namespace lockstep::cuda
