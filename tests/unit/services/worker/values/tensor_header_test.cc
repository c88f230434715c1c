#include "services/worker/values/tensor_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "runtime/tensor/storage.h"

namespace lockstep::worker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TensorHeader HeaderOf(DType dtype, const Shape& shape) {
  const auto allocator = tensor::NewHeapAllocator();
  return TensorHeader(*tensor::Tensor::Empty(*allocator, dtype, shape));
}

// As a peer could have sent it.
TensorHeader Received(const std::vector<int64_t>& words) {
  TensorHeader header;
  auto* target = static_cast<int64_t*>(header.buffer().data);
  std::copy(words.begin(), words.end(), target);
  return header;
}

TEST(TensorHeaderTest, DtypeAndShapeCross) {
  for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{2, 3, 4}}) {
    TensorHeader sent = HeaderOf(DType::kBFloat16, shape);
    const auto* words = static_cast<const int64_t*>(sent.buffer().data);
    const TensorHeader header = Received({words, words + sent.buffer().count});
    EXPECT_TRUE(header.Validate().ok());
    EXPECT_EQ(header.dtype(), DType::kBFloat16);
    EXPECT_EQ(header.shape(), shape);
  }
}

TEST(TensorHeaderTest, NonsenseOfAPeerIsRefused) {
  const auto code = [](const std::vector<int64_t>& words) {
    return Received(words).Validate().code();
  };
  EXPECT_EQ(code({-1, 1, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({kDTypeCount, 1, 2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, -1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, Shape::kMaxDims + 1}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 1, -2}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({0, 3, int64_t{1} << 31, int64_t{1} << 31, 4}), StatusCode::kInvalidArgument);
}

TEST(CheckSameRowsTest, AllButTheFirstDimensionMustBeEqual) {
  const TensorHeader one = HeaderOf(DType::kFloat32, {1, 3});
  const TensorHeader none = HeaderOf(DType::kFloat32, {0, 3});
  EXPECT_TRUE(CheckSameRows({one, none, one}, {4, 5, 6}).ok());
  for (const TensorHeader& other :
       {HeaderOf(DType::kFloat32, {1, 2}), HeaderOf(DType::kFloat32, {1, 3, 1}),
        HeaderOf(DType::kFloat32, {3}), HeaderOf(DType::kInt32, {1, 3})}) {
    EXPECT_EQ(CheckSameRows({one, other}, {4, 5}).code(), StatusCode::kInvalidArgument);
  }
}

TEST(CheckSameRowsTest, RanksAreNamedAsInTheWorld) {
  const Status differ =
      CheckSameRows({HeaderOf(DType::kFloat32, {1, 3}), HeaderOf(DType::kInt8, {1, 3})}, {4, 2});
  EXPECT_THAT(Message(differ),
              AllOf(HasSubstr("rank 4 has float32 [1, 3]"), HasSubstr("rank 2 has int8 [1, 3]")));
  const Status scalar =
      CheckSameRows({HeaderOf(DType::kFloat32, {1}), HeaderOf(DType::kFloat32, {})}, {4, 2});
  EXPECT_THAT(Message(scalar), HasSubstr("rank 2 has a scalar"));
}

TEST(CheckSameRowsTest, ScalarsHaveNoRows) {
  const TensorHeader scalar = HeaderOf(DType::kFloat32, {});
  EXPECT_EQ(CheckSameRows({scalar, scalar}, {0, 1}).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::worker
