#include "tests/conformance/world_under_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/tensor/element.h"

namespace lockstep::collective {

TestBuffer::TestBuffer(tensor::Allocator* allocator, DType dtype, size_t count)
    : count_(count), dtype_(dtype) {
  const size_t bytes = count * SizeOf(dtype);
  if (allocator == nullptr) {
    heap_ = std::make_unique<std::byte[]>(bytes + 1);
    data_ = heap_.get();
    return;
  }
  auto storage = allocator->Allocate(bytes);
  if (!storage.ok()) {
    ADD_FAILURE() << storage.status();
    count_ = 0;
    return;
  }
  storage_ = std::move(*storage);
  data_ = static_cast<std::byte*>(storage_->data());
}

Buffer TestBuffer::Part(int64_t begin, int64_t count) const {
  return {data_ + static_cast<size_t>(begin) * SizeOf(dtype_), static_cast<size_t>(count), dtype_};
}

DeviceCopies*& DeviceCopies::OfThisThread() {
  thread_local DeviceCopies* copies = nullptr;
  return copies;
}

bool TestBuffer::IsOnDevice() const {
  return storage_ != nullptr && storage_->device().type != DeviceType::kCpu;
}

void TestBuffer::Fill(const std::function<double(size_t)>& value) {
  std::vector<double> values(count_);
  for (size_t i = 0; i < count_; ++i) values[i] = value(i);
  std::vector<std::byte> bytes(count_ * SizeOf(dtype_));
  tensor::CastElements(ViewOf(values.data(), count_), {bytes.data(), count_, dtype_});
  SetBytes(bytes);
}

std::vector<double> TestBuffer::Read() const {
  const std::vector<std::byte> bytes = Bytes();
  std::vector<double> values(count_);
  tensor::CastElements({bytes.data(), count_, dtype_}, ViewOf(values.data(), count_));
  return values;
}

void TestBuffer::SetBytes(absl::Span<const std::byte> bytes) {
  if (IsOnDevice())
    return DeviceCopies::OfThisThread()->ToDevice(data_, bytes.data(), bytes.size());
  std::copy(bytes.begin(), bytes.end(), data_);
}

std::vector<std::byte> TestBuffer::Bytes() const {
  std::vector<std::byte> bytes(count_ * SizeOf(dtype_));
  if (IsOnDevice()) {
    DeviceCopies::OfThisThread()->FromDevice(bytes.data(), data_, bytes.size());
  } else {
    std::copy_n(data_, bytes.size(), bytes.begin());
  }
  return bytes;
}

double Pattern(ReduceOp op, DType dtype, int rank, size_t i) {
  const auto n = static_cast<int>(i % 1000);
  if (dtype == DType::kBool) return (n + rank) % 3 == 0 ? 1 : 0;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return (n * 7 + rank * 3) % 5;
    case ReduceOp::kProd:
      return (n + rank) % 3 == 0 ? 2 : 1;
    case ReduceOp::kMin:
    case ReduceOp::kMax: {
      const bool is_unsigned = dtype == DType::kUInt8 || dtype == DType::kUInt16 ||
                               dtype == DType::kUInt32 || dtype == DType::kUInt64;
      return (n * 5 + rank * 7) % 9 - (is_unsigned ? 0 : 4);
    }
  }
  return 0;
}

double Reduced(ReduceOp op, DType dtype, int ranks, size_t i) {
  double result = Pattern(op, dtype, 0, i);
  for (int r = 1; r < ranks; ++r) {
    const double next = Pattern(op, dtype, r, i);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAvg:
        result += next;
        break;
      case ReduceOp::kProd:
        result *= next;
        break;
      case ReduceOp::kMin:
        result = std::min(result, next);
        break;
      case ReduceOp::kMax:
        result = std::max(result, next);
        break;
    }
  }
  if (dtype == DType::kBool) return result != 0 ? 1 : 0;
  if (op != ReduceOp::kAvg) return result;
  return IsFloat(dtype) ? result / ranks : std::trunc(result / ranks);
}

double Tolerance(ReduceOp op, DType dtype) {
  if (op != ReduceOp::kAvg) return 0;
  switch (dtype) {
    case DType::kBFloat16:
      return 1.0 / 128;
    case DType::kFloat16:
      return 1.0 / 1024;
    case DType::kFloat32:
      return 1e-6;
    case DType::kFloat64:
      return 1e-14;
    default:
      return 0;
  }
}

double Label(int rank, size_t i) {
  return static_cast<double>((i * 3 + i / 7 + static_cast<size_t>(rank) * 5) % 8);
}

std::vector<int64_t> UnevenCounts(int size, int64_t base) {
  std::vector<int64_t> counts;
  for (int r = 0; r < size; ++r) counts.push_back(r % 3 == 1 ? 0 : base + r);
  return counts;
}

}  // namespace lockstep::collective
