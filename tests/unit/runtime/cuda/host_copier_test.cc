#include "runtime/cuda/host_copier.h"

#include <chrono>
#include <random>
#include <thread>

#include "tests/unit/runtime/cuda/gpu_under_test.h"
#ifdef LOCKSTEP_FAKE_GPU
#include "tests/fakes/cuda/gate.h"
#endif

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

#ifdef LOCKSTEP_FAKE_GPU
// A wait for a kernel that does not end before the test lets it.
collective::WaitLimit Moment() { return {Deadline::After(std::chrono::seconds(2))}; }

TEST_F(HostCopierTest, SmallUploadsDoNotWaitForALongKernel) {
  const std::vector<int> numbers(10, 7);
  const auto memory = Put(std::vector<int>(10, 0));
  fake_cuda::Gate kernel(streams_->compute().handle());
  for (int i = 0; i < 20; ++i) {
    const Status copied =
        copier_->ToGpu(streams_->compute(), memory->data(), numbers.data(), 40, Moment());
    EXPECT_TRUE(copied.ok()) << i << ": " << copied;
    if (!copied.ok()) break;
  }
  kernel.Open();
  EXPECT_EQ(Get<int>(memory->data(), 10), numbers);
}

TEST_F(HostCopierTest, UploadsLargerThanItsChunksDoNotWaitForALongKernel) {
  const auto numbers = Random(5 * HostCopier::kChunkBytes / 4 + 3);
  const auto memory = Allocate(numbers.size() * 4);
  fake_cuda::Gate kernel(streams_->compute().handle());
  const Status copied = copier_->ToGpu(streams_->compute(), memory->data(), numbers.data(),
                                       numbers.size() * 4, Moment());
  EXPECT_TRUE(copied.ok()) << copied;
  kernel.Open();
  EXPECT_EQ(Get<uint32_t>(memory->data(), numbers.size()), numbers);
}

// What was put in before reads the memory as it was, however late it is.
TEST_F(HostCopierTest, AnUploadKeepsTheOrderOfItsStream) {
  const std::vector<int> old(1000, 1);
  const std::vector<int> fresh(1000, 2);
  const auto memory = Put(old);
  const auto reader = Allocate(4000);
  fake_cuda::Gate kernel(streams_->compute().handle());
  ASSERT_TRUE(streams_->compute().Copy(reader->data(), memory->data(), 4000).ok());
  ASSERT_TRUE(
      copier_->ToGpu(streams_->compute(), memory->data(), fresh.data(), 4000, Moment()).ok());
  kernel.Open();
  EXPECT_EQ(Get<int>(reader->data(), 1000), old);
  EXPECT_EQ(Get<int>(memory->data(), 1000), fresh);
}

// A caller that uploads faster than its kernels run would else fill the GPU's memory.
TEST_F(HostCopierTest, UploadsThatAreFarAheadOfTheirStreamWaitForIt) {
  const auto numbers = Random((HostCopier::kMostBeside + 4 * HostCopier::kChunkBytes) / 4);
  const auto memory = Allocate(numbers.size() * 4);
  for (int round = 0; round < 2; ++round) {
    fake_cuda::Gate kernel(streams_->compute().handle());
    EXPECT_TRUE(copier_
                    ->ToGpu(streams_->compute(), memory->data(), numbers.data(),
                            HostCopier::kMostBeside, Moment())
                    .ok())
        << round;
    const size_t rest = numbers.size() * 4 - HostCopier::kMostBeside;
    const Status ahead = copier_->ToGpu(
        streams_->compute(), static_cast<std::byte*>(memory->data()) + HostCopier::kMostBeside,
        reinterpret_cast<const std::byte*>(numbers.data()) + HostCopier::kMostBeside, rest,
        {Deadline::After(std::chrono::milliseconds(20))});
    EXPECT_EQ(ahead.code(), StatusCode::kDeadlineExceeded) << ahead;
    kernel.Open();
    EXPECT_EQ(
        Get<uint32_t>(memory->data(), HostCopier::kMostBeside / 4),
        std::vector<uint32_t>(numbers.begin(), numbers.begin() + HostCopier::kMostBeside / 4));
  }
}

// Without memory to spare an upload waits for its turn, and comes all the same.
TEST_F(HostCopierTest, AnUploadThatFindsNoMemoryToSpareWaits) {
  const auto numbers = Random(4 * HostCopier::kChunkBytes / 4);
  const auto memory = Allocate(numbers.size() * 4);
  const auto rest = Allocate(gpu_->Memory()->free_bytes - (1 << 20));
  fake_cuda::Gate kernel(streams_->compute().handle());
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    kernel.Open();
  });
  const Status copied = copier_->ToGpu(streams_->compute(), memory->data(), numbers.data(),
                                       numbers.size() * 4, Enough());
  opener.join();
  EXPECT_TRUE(copied.ok()) << copied;
  EXPECT_EQ(Get<uint32_t>(memory->data(), numbers.size()), numbers);
}
#endif

}  // namespace
}  // namespace lockstep::cuda
