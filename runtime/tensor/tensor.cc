#include "runtime/tensor/tensor.h"

#include <algorithm>
#include <utility>

namespace lockstep::tensor {

namespace {

Shape RowMajorStrides(const Shape& shape) {
  Shape strides = shape;
  int64_t elements = 1;
  for (int axis = shape.ndim() - 1; axis >= 0; --axis) {
    strides[axis] = elements;
    elements *= std::max<int64_t>(shape[axis], 1);
  }
  return strides;
}

}  // namespace

StatusOr<Tensor> Tensor::Empty(Allocator& allocator, DType dtype, const Shape& shape) {
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype)));
  const size_t size_bytes = static_cast<size_t>(shape.NumElements()) * SizeOf(dtype);
  LOCKSTEP_ASSIGN_OR_RETURN(auto storage, allocator.Allocate(size_bytes));
  return FromStorage(std::move(storage), 0, dtype, shape);
}

StatusOr<Tensor> Tensor::FromStorage(std::shared_ptr<Storage> storage, size_t byte_offset,
                                     DType dtype, const Shape& shape) {
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype)));
  const size_t size_bytes = static_cast<size_t>(shape.NumElements()) * SizeOf(dtype);
  if (byte_offset > storage->size_bytes() || size_bytes > storage->size_bytes() - byte_offset) {
    return InvalidArgument("a ", dtype, " tensor ", shape, " at byte ", byte_offset, " needs ",
                           size_bytes, " bytes, past the end of its storage of ",
                           storage->size_bytes(), " bytes");
  }
  auto rep = std::make_shared<Rep>();
  rep->dtype = dtype;
  rep->shape = shape;
  rep->strides = RowMajorStrides(shape);
  rep->num_elements = shape.NumElements();
  rep->dl.data = static_cast<std::byte*>(storage->data()) + byte_offset;
  rep->dl.device = {static_cast<DLDeviceType>(storage->device().type), storage->device().index};
  rep->dl.ndim = shape.ndim();
  rep->dl.dtype = ToDLPack(dtype);
  rep->dl.shape = const_cast<int64_t*>(rep->shape.dims().data());
  rep->dl.strides = const_cast<int64_t*>(rep->strides.dims().data());
  rep->dl.byte_offset = 0;
  rep->storage = std::move(storage);
  return Tensor(std::move(rep));
}

StatusOr<Tensor> Tensor::Reshaped(const Shape& shape) const {
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype())));
  if (shape.NumElements() != NumElements()) {
    return InvalidArgument("a tensor ", this->shape(), " of ", NumElements(),
                           " elements cannot be reshaped to ", shape, " of ", shape.NumElements());
  }
  return FromStorage(storage(), ByteOffset(), dtype(), shape);
}

StatusOr<Tensor> Tensor::Rows(int64_t begin, int64_t end) const {
  if (shape().ndim() == 0) return InvalidArgument("a scalar tensor has no rows");
  if (begin < 0 || begin > end || end > shape()[0]) {
    return InvalidArgument("rows [", begin, ", ", end, ") are not within the ", shape()[0],
                           " rows of a tensor ", shape());
  }
  Shape rows = shape();
  rows[0] = end - begin;
  const size_t row_bytes = static_cast<size_t>(shape().RowElements()) * SizeOf(dtype());
  return FromStorage(storage(), ByteOffset() + static_cast<size_t>(begin) * row_bytes, dtype(),
                     rows);
}

// Lockstep's dtypes as DLPack spells them.

namespace {

// In the order of DType.
constexpr DLDataType kDLPackTypes[kDTypeCount] = {
    {kDLBool, 8, 1},   {kDLInt, 8, 1},           {kDLUInt, 8, 1},        {kDLInt, 16, 1},
    {kDLUInt, 16, 1},  {kDLInt, 32, 1},          {kDLUInt, 32, 1},       {kDLInt, 64, 1},
    {kDLUInt, 64, 1},  {kDLFloat, 16, 1},        {kDLBfloat, 16, 1},     {kDLFloat, 32, 1},
    {kDLFloat, 64, 1}, {kDLFloat8_e4m3fn, 8, 1}, {kDLFloat8_e5m2, 8, 1},
};

const char* CodeName(uint8_t code) {
  switch (code) {
    case kDLInt:
      return "int";
    case kDLUInt:
      return "uint";
    case kDLFloat:
      return "float";
    case kDLBfloat:
      return "bfloat";
    case kDLBool:
      return "bool";
    case kDLComplex:
      return "complex";
    case kDLOpaqueHandle:
      return "handle";
    default:
      return "another type";
  }
}

}  // namespace

DLDataType ToDLPack(DType dtype) { return kDLPackTypes[static_cast<size_t>(dtype)]; }

StatusOr<DType> FromDLPack(DLDataType dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DLDataType& known = kDLPackTypes[i];
    if (known.code == dtype.code && known.bits == dtype.bits && known.lanes == dtype.lanes) {
      return static_cast<DType>(i);
    }
  }
  return InvalidArgument("Lockstep has no dtype for DLPack's ", CodeName(dtype.code), " (code ",
                         +dtype.code, ") of ", +dtype.bits, " bits and ", dtype.lanes, " lanes");
}

}  // namespace lockstep::tensor
