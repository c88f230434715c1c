#include "services/worker/host_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/services/worker/cuda_tensor.h"

namespace lockstep::worker {
namespace {

TEST(HostTensorTest, HostMemoryIsFine) {
  const auto allocator = tensor::NewHeapAllocator();
  EXPECT_TRUE(RequireHost(*tensor::Tensor::Empty(*allocator, DType::kFloat32, {3}), "it").ok());
}

TEST(HostTensorTest, OtherDevicesAreNamedWithTheWayOut) {
  const Status status = RequireHost(CudaTensor(), "the source");
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), testing::StartsWith("the source is on cuda:3"));
  EXPECT_THAT(Message(status), testing::HasSubstr("return a copy in host memory"));
}

}  // namespace
}  // namespace lockstep::worker
