#include "services/worker/values/reachable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/services/worker/cuda_tensor.h"

namespace lockstep::worker {
namespace {

class ReachTest : public testing::Test {
 protected:
  const std::shared_ptr<tensor::Allocator> allocator_ = tensor::NewHeapAllocator();
  const std::unique_ptr<tensor::Processor> host_ = tensor::NewHostProcessor(*allocator_);
};

TEST_F(ReachTest, HostMemoryIsFine) {
  const auto tensor = tensor::Tensor::Empty(*allocator_, DType::kFloat32, {3});
  EXPECT_TRUE(RequireReachable({host_.get(), nullptr}, *tensor, "it").ok());
}

TEST_F(ReachTest, SoIsTheGpuOfAWorkerThatHasOne) {
  EXPECT_TRUE(RequireReachable({host_.get(), host_.get()}, CudaTensor(), "it").ok());
}

TEST_F(ReachTest, OtherDevicesAreNamedWithTheWayOut) {
  const Status status = RequireReachable({host_.get(), nullptr}, CudaTensor(), "the source");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), testing::StartsWith("the source is on cuda:3"));
  EXPECT_THAT(Message(status), testing::HasSubstr("return a copy in host memory"));
}

}  // namespace
}  // namespace lockstep::worker
