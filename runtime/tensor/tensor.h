// Dense, row-major tensors: a typed, shaped view of shared storage, compatible with DLPack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "dlpack/dlpack.h"
#include "runtime/base/dtype.h"
#include "runtime/base/shape.h"
#include "runtime/tensor/storage.h"

namespace lockstep::tensor {

DLDataType ToDLPack(DType dtype);
// kInvalidArgument names a dtype that Lockstep does not have (complex, vectors of lanes, int4,
// ...).
StatusOr<DType> FromDLPack(DLDataType dtype);

// A handle: copying shares the memory. A default-constructed tensor is null and only good for being
// assigned to.
//
// Threads: the handle is as safe as a shared_ptr; writers of the memory synchronise themselves.
class Tensor {
 public:
  Tensor() = default;

  // Allocates an uninitialised tensor. kInvalidArgument for a bad shape; the allocator's errors.
  static StatusOr<Tensor> Empty(Allocator& allocator, DType dtype, const Shape& shape);

  // A view of `shape` that starts `byte_offset` into `storage`. kInvalidArgument if it would reach
  // past the end.
  static StatusOr<Tensor> FromStorage(std::shared_ptr<Storage> storage, size_t byte_offset,
                                      DType dtype, const Shape& shape);

  bool IsNull() const { return rep_ == nullptr; }
  DType dtype() const { return rep_->dtype; }
  const Shape& shape() const { return rep_->shape; }
  int64_t NumElements() const { return rep_->num_elements; }
  size_t size_bytes() const { return static_cast<size_t>(NumElements()) * SizeOf(dtype()); }
  Device device() const { return rep_->storage->device(); }
  const std::shared_ptr<Storage>& storage() const { return rep_->storage; }

  void* data() const { return rep_->dl.data; }
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(rep_->dl.data);
  }
  Buffer buffer() const { return {data(), static_cast<size_t>(NumElements()), dtype()}; }

  // The DLPack description (byte_offset is 0, strides are filled in). Valid while this tensor, or a
  // copy of it, lives. Non-const because DLPack is; it must not be changed.
  DLTensor* dl() const { return &rep_->dl; }

  // Same memory, same number of elements, another shape.
  StatusOr<Tensor> Reshaped(const Shape& shape) const;
  // Rows [begin, end) along dimension 0, sharing the memory; aligned as the elements are, not as
  // the storage is.
  StatusOr<Tensor> Rows(int64_t begin, int64_t end) const;

 private:
  struct Rep {
    std::shared_ptr<Storage> storage;
    DType dtype = DType::kUInt8;
    Shape shape;
    Shape strides;  // in elements
    int64_t num_elements = 0;
    DLTensor dl{};  // points into shape and strides
  };
  explicit Tensor(std::shared_ptr<Rep> rep) : rep_(std::move(rep)) {}

  size_t ByteOffset() const {
    return static_cast<size_t>(static_cast<const std::byte*>(data()) -
                               static_cast<const std::byte*>(storage()->data()));
  }

  std::shared_ptr<Rep> rep_;
};

}  // namespace lockstep::tensor
