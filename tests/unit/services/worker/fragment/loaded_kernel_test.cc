// Kernels of CUDA source, on a device that does nothing; what they compute is in
// tests/integration/gpu_fragments_test.cc.
#include "services/worker/fragment/loaded_kernel.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/tensor/storage.h"
#include "services/worker/fragment/object_cache.h"
#include "tests/unit/runtime/fragment/fake_compiler.h"
#include "tests/unit/services/worker/fake_accelerator.h"

namespace lockstep::worker {
namespace {

using fragment::FakeCompiler;
using testing::ElementsAre;
using testing::HasSubstr;

// As the stand-in compiler answers.
constexpr char kSumSource[] =
    "// lockstep: sum(mode: int64, x: float64[n from first]) -> (y: float64[n])\n";

class LoadedKernelTest : public testing::Test {
 protected:
  // Has a device, unless it is null.
  std::unique_ptr<ObjectCache> Cache(std::shared_ptr<FakeAccelerator> device) const {
    ObjectCacheOptions options;
    options.cuda_compiler = fake_.Options();
    options.cuda_compiler.language = fragment::Kind::kCuda;
    options.directory = fake_.Path("objects");
    auto cache = std::make_unique<ObjectCache>(options);
    if (device != nullptr) cache->UseDevice(std::move(device));
    return cache;
  }
  auto Get(ObjectCache& cache, const std::string& source = kSumSource) const {
    return cache.Get({*fragment::Fragment::Cuda(source, "sum", "sum.cu")});
  }

  const FakeCompiler fake_;
  const std::shared_ptr<FakeAccelerator> device_ = std::make_shared<FakeAccelerator>();
};

TEST_F(LoadedKernelTest, IsCompiledOnceAndKeptAsOthersAre) {
  for (int i = 0; i < 2; ++i) {
    const auto cache = Cache(device_);
    const auto first = Get(*cache);
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_TRUE((*first)->computes_on_device());
    EXPECT_EQ(*Get(*cache), *first);
  }
  EXPECT_EQ(fake_.Requests(), 1u);
}

TEST_F(LoadedKernelTest, WithoutADeviceNothingIsCompiled) {
  const auto cache = Cache(nullptr);
  const Status status = Get(*cache).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status), HasSubstr("this worker has no GPU"));
  EXPECT_EQ(fake_.Requests(), 0u);
}

TEST_F(LoadedKernelTest, OfAnotherSignatureThanItsSourceIsRefused) {
  const auto cache = Cache(device_);
  const Status status =
      Get(*cache, "// lockstep: sum(mode: int64, x: float64[n]) -> (y: float64[n])\n").status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(Message(status), HasSubstr("which its source does not say"));
}

TEST_F(LoadedKernelTest, IsGivenAddressesNumbersAndThreads) {
  const auto cache = Cache(device_);
  const auto kernel = Get(*cache);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const int64_t mode = 7;
  const std::array<int64_t, 1> sizes{300}, offsets{600};
  std::vector<double> x(300), y(300);
  const std::vector<LockstepFragmentTensor> arguments = {
      {const_cast<int64_t*>(&mode), nullptr, nullptr, nullptr},
      {x.data(), sizes.data(), offsets.data(), nullptr}};
  const std::vector<LockstepFragmentTensor> results = {{y.data(), sizes.data(), nullptr, nullptr}};
  const auto memory = tensor::NewHeapAllocator();
  const CallResources resources{*memory, 0};
  EXPECT_THAT(*(*kernel)->ResultShapes(arguments, resources), ElementsAre(Shape{300}));

  int launches = 0;
  device_->processor().on_launch = [&](const collective::KernelLaunch& launch) {
    ++launches;
    EXPECT_EQ(launch.threads, 300u);
    ASSERT_EQ(launch.parameters.size(), 5u);
    EXPECT_EQ(*static_cast<const int64_t*>(launch.parameters[0]), 7);
    EXPECT_EQ(*static_cast<double**>(launch.parameters[1]), x.data());
    EXPECT_EQ(*static_cast<double**>(launch.parameters[2]), y.data());
    EXPECT_EQ(*static_cast<const int64_t*>(launch.parameters[3]), 300);
    EXPECT_EQ(*static_cast<const int64_t*>(launch.parameters[4]), 600);
    ASSERT_EQ(launch.memory.size(), 2u);
    EXPECT_EQ(launch.memory[0].begin, x.data());
    EXPECT_EQ(launch.memory[1].size_bytes, 300 * sizeof(double));
  };
  EXPECT_TRUE((*kernel)->Run(arguments, results, resources).ok());
  EXPECT_EQ(launches, 1);
}

}  // namespace
}  // namespace lockstep::worker
