#include "runtime/tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "runtime/tensor/storage.h"

namespace lockstep::tensor {
namespace {

class TensorTest : public testing::Test {
 protected:
  Tensor New(DType dtype, const Shape& shape) {
    StatusOr<Tensor> tensor = Tensor::Empty(*heap_, dtype, shape);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    return *std::move(tensor);
  }
  const std::shared_ptr<Allocator> heap_ = NewHeapAllocator();
};

TEST_F(TensorTest, EmptyHasTheShapeAndSizeAskedFor) {
  const Tensor tensor = New(DType::kFloat32, {2, 3});
  EXPECT_FALSE(tensor.IsNull());
  EXPECT_EQ(tensor.dtype(), DType::kFloat32);
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_EQ(tensor.NumElements(), 6);
  EXPECT_EQ(tensor.size_bytes(), 24u);
  EXPECT_EQ(tensor.buffer().count, 6u);
  EXPECT_EQ(tensor.buffer().data, tensor.data());
  EXPECT_TRUE(Tensor().IsNull());
}

TEST_F(TensorTest, DLPackDescriptionIsCompleteAndRowMajor) {
  const Tensor tensor = New(DType::kInt16, {2, 3, 4});
  const DLTensor& dl = *tensor.dl();
  EXPECT_EQ(dl.data, tensor.data());
  EXPECT_EQ(dl.byte_offset, 0u);
  EXPECT_EQ(dl.device.device_type, kDLCPU);
  EXPECT_EQ(dl.ndim, 3);
  EXPECT_EQ(dl.dtype.code, kDLInt);
  EXPECT_EQ(dl.dtype.bits, 16);
  EXPECT_EQ(dl.dtype.lanes, 1);
  EXPECT_EQ(std::vector<int64_t>(dl.shape, dl.shape + 3), (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(std::vector<int64_t>(dl.strides, dl.strides + 3), (std::vector<int64_t>{12, 4, 1}));
}

TEST_F(TensorTest, ScalarsAndEmptyTensorsAreFine) {
  EXPECT_EQ(New(DType::kFloat64, {}).NumElements(), 1);
  const Tensor empty = New(DType::kFloat64, {3, 0, 2});
  EXPECT_EQ(empty.NumElements(), 0);
  EXPECT_EQ(empty.size_bytes(), 0u);
}

TEST_F(TensorTest, CopiesShareTheMemoryUntilTheLastGoes) {
  Tensor first = New(DType::kUInt8, {4});
  Tensor second = first;
  EXPECT_EQ(first.data(), second.data());
  EXPECT_EQ(heap_->Stats().live_blocks, 1u);
  first = Tensor();
  second.data_as<uint8_t>()[3] = 9;
  EXPECT_EQ(heap_->Stats().live_blocks, 1u);
  second = Tensor();
  EXPECT_EQ(heap_->Stats().live_blocks, 0u);
}

TEST_F(TensorTest, BadShapesAreInvalid) {
  EXPECT_EQ(Tensor::Empty(*heap_, DType::kInt8, {-1}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Tensor::Empty(*heap_, DType::kInt64, {int64_t{1} << 61}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(TensorTest, AllocatorsErrorIsPassedOn) {
  EXPECT_EQ(Tensor::Empty(*heap_, DType::kInt8, {int64_t{1} << 60}).status().code(),
            StatusCode::kResourceExhausted);
}

TEST_F(TensorTest, ViewsStayInsideTheirStorage) {
  const auto storage = *heap_->Allocate(100);
  EXPECT_TRUE(Tensor::FromStorage(storage, 20, DType::kFloat32, {20}).ok());
  for (const auto& [offset, count] : {std::pair<size_t, int64_t>{21, 20}, {101, 0}, {0, 26}}) {
    const Status status = Tensor::FromStorage(storage, offset, DType::kFloat32, {count}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << offset;
    EXPECT_NE(Message(status).find("100 bytes"), std::string::npos) << status;
  }
}

TEST_F(TensorTest, ReshapedSharesMemoryAndKeepsTheCount) {
  const Tensor tensor = New(DType::kInt32, {2, 6});
  const StatusOr<Tensor> reshaped = tensor.Reshaped({3, 4});
  ASSERT_TRUE(reshaped.ok());
  EXPECT_EQ(reshaped->data(), tensor.data());
  EXPECT_EQ(reshaped->shape(), (Shape{3, 4}));
  const Status status = tensor.Reshaped({5}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(status).find("[2, 6]"), std::string::npos);
  EXPECT_NE(Message(status).find("[5]"), std::string::npos);
}

TEST_F(TensorTest, RowsShareMemory) {
  const Tensor tensor = New(DType::kInt32, {4, 3});
  std::iota(tensor.data_as<int32_t>(), tensor.data_as<int32_t>() + 12, 0);
  const Tensor rows = *tensor.Rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 3}));
  EXPECT_EQ(rows.data_as<int32_t>()[0], 3);
  const Tensor row_of_rows = *rows.Rows(1, 2);
  EXPECT_EQ(row_of_rows.data_as<int32_t>()[0], 6);
  EXPECT_EQ(tensor.Rows(4, 4)->NumElements(), 0);
}

TEST_F(TensorTest, RowsOutsideAreInvalid) {
  const Tensor tensor = New(DType::kInt32, {4, 3});
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{-1, 2}, {3, 2}, {0, 5}}) {
    EXPECT_EQ(tensor.Rows(begin, end).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(New(DType::kInt32, {}).Rows(0, 1).status().code(), StatusCode::kInvalidArgument);
}

TEST(DLPackTest, EveryDTypeRoundTrips) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    const DLDataType dl = ToDLPack(dtype);
    EXPECT_EQ(dl.bits, 8 * SizeOf(dtype)) << dtype;
    EXPECT_EQ(dl.lanes, 1);
    const StatusOr<DType> back = FromDLPack(dl);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, dtype);
  }
}

TEST(DLPackTest, CodesAreThoseOfTheStandard) {
  EXPECT_EQ(ToDLPack(DType::kBool).code, 6);
  EXPECT_EQ(ToDLPack(DType::kBFloat16).code, 4);
  EXPECT_EQ(ToDLPack(DType::kFloat8E4M3).code, 10);
  EXPECT_EQ(ToDLPack(DType::kFloat8E5M2).code, 12);
}

TEST(DLPackTest, ForeignDTypesAreInvalid) {
  for (const DLDataType dl : {DLDataType{kDLComplex, 64, 1}, DLDataType{kDLFloat, 32, 4},
                              DLDataType{kDLInt, 4, 1}, DLDataType{kDLFloat8_e4m3fnuz, 8, 1}}) {
    const Status status = FromDLPack(dl).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(Message(status).find(std::to_string(dl.bits) + " bits"), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace lockstep::tensor
