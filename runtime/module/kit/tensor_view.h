// Tensors as modules see them, and what is thrown when something is wrong. Part of ffi_export.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "dlpack/dlpack.h"

namespace lockstep::ffi {

class Error : public std::exception {
 public:
  Error(std::string kind, std::string message)
      : kind_(std::move(kind)), message_(std::move(message)) {}

  const std::string& kind() const { return kind_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string kind_;
  std::string message_;
};

// How each C++ type is called in DLPack. Specialise it for types of your own.
template <typename T>
constexpr DLDataType DLTypeOf();
template <>
constexpr DLDataType DLTypeOf<float>() {
  return {kDLFloat, 32, 1};
}
template <>
constexpr DLDataType DLTypeOf<double>() {
  return {kDLFloat, 64, 1};
}
template <>
constexpr DLDataType DLTypeOf<int8_t>() {
  return {kDLInt, 8, 1};
}
template <>
constexpr DLDataType DLTypeOf<uint8_t>() {
  return {kDLUInt, 8, 1};
}
template <>
constexpr DLDataType DLTypeOf<int16_t>() {
  return {kDLInt, 16, 1};
}
template <>
constexpr DLDataType DLTypeOf<uint16_t>() {
  return {kDLUInt, 16, 1};
}
template <>
constexpr DLDataType DLTypeOf<int32_t>() {
  return {kDLInt, 32, 1};
}
template <>
constexpr DLDataType DLTypeOf<uint32_t>() {
  return {kDLUInt, 32, 1};
}
template <>
constexpr DLDataType DLTypeOf<int64_t>() {
  return {kDLInt, 64, 1};
}
template <>
constexpr DLDataType DLTypeOf<uint64_t>() {
  return {kDLUInt, 64, 1};
}
template <>
constexpr DLDataType DLTypeOf<bool>() {
  return {kDLBool, 8, 1};
}

// In a list of expected extents: any extent.
inline constexpr int64_t kAny = -1;

inline constexpr DLDevice kHost = {kDLCPU, 0};

inline bool IsHost(DLDevice device) {
  return device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
}
inline bool IsSameDevice(DLDevice a, DLDevice b) {
  return IsHost(a) ? IsHost(b) : a.device_type == b.device_type && a.device_id == b.device_id;
}

// A dense, row-major tensor. The memory is borrowed; elements are for those who can reach it.
template <typename T>
class TensorView {
 public:
  explicit TensorView(const DLTensor* tensor) : tensor_(tensor) {
    for (int axis = 0; axis < tensor->ndim; ++axis) size_ *= tensor->shape[axis];
  }

  int ndim() const { return tensor_->ndim; }
  int64_t dim(int axis) const { return tensor_->shape[axis]; }
  int64_t size() const { return size_; }  // in elements

  T* data() const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(tensor_->data) + tensor_->byte_offset);
  }
  T& operator[](int64_t index) const { return data()[index]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }

 private:
  const DLTensor* tensor_;
  int64_t size_ = 1;
};

}  // namespace lockstep::ffi
