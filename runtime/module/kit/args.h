// What a function is called with. Part of ffi_export.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/module/kit/tensor_view.h"
#include "runtime/module/kit/type_name.h"
#include "tvm/ffi/c_api.h"

namespace lockstep::ffi {

// The arguments of one call. Every reader names the argument in its error.
class Args {
 public:
  Args(const TVMFFIAny* args, int32_t count) : args_(args), count_(count) {}

  int count() const { return count_; }
  void ExpectCount(int expected) const {
    if (count_ == expected) return;
    throw Error("TypeError", "expected " + std::to_string(expected) +
                                 (expected == 1 ? " argument, got " : " arguments, got ") +
                                 std::to_string(count_));
  }

  int64_t Int(int index, const char* name) const {
    const TVMFFIAny& arg = At(index, name);
    if (arg.type_index != kTVMFFIInt) Mismatch(index, name, "an int");
    return arg.v_int64;
  }
  // Takes an int too.
  double Float(int index, const char* name) const {
    const TVMFFIAny& arg = At(index, name);
    if (arg.type_index == kTVMFFIInt) return static_cast<double>(arg.v_int64);
    if (arg.type_index != kTVMFFIFloat) Mismatch(index, name, "a float");
    return arg.v_float64;
  }
  bool Bool(int index, const char* name) const {
    const TVMFFIAny& arg = At(index, name);
    if (arg.type_index != kTVMFFIBool) Mismatch(index, name, "a bool");
    return arg.v_int64 != 0;
  }
  std::string_view Text(int index, const char* name) const {
    const TVMFFIAny& arg = At(index, name);
    if (arg.type_index == kTVMFFIRawStr) return arg.v_c_str;
    if (arg.type_index == kTVMFFISmallStr) return {arg.v_bytes, arg.small_str_len};
    if (arg.type_index != kTVMFFIStr) Mismatch(index, name, "text");
    const auto* bytes = reinterpret_cast<const TVMFFIByteArray*>(arg.v_obj + 1);
    return {bytes->data, bytes->size};
  }

  // The extents of a shape, outermost first.
  std::vector<int64_t> Shape(int index, const char* name) const {
    const TVMFFIAny& arg = At(index, name);
    if (arg.type_index != kTVMFFIShape) Mismatch(index, name, "a shape");
    const auto* shape = reinterpret_cast<const TVMFFIShapeCell*>(arg.v_obj + 1);
    return {shape->data, shape->data + shape->size};
  }

  // Any tensor at all, as DLPack describes it.
  const DLTensor* RawTensor(int index, const char* name) const {
    const TVMFFIAny& arg = At(index, name);
    if (arg.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(arg.v_ptr);
    if (arg.type_index != kTVMFFITensor) Mismatch(index, name, "a tensor");
    return reinterpret_cast<const DLTensor*>(arg.v_obj + 1);
  }
  // Where a tensor lies.
  DLDevice DeviceOf(int index, const char* name) const { return RawTensor(index, name)->device; }

  // A tensor of T on that device, dense and row-major, of any shape.
  template <typename T>
  TensorView<T> Tensor(int index, const char* name, DLDevice device = kHost) const {
    const DLTensor* tensor = RawTensor(index, name);
    constexpr DLDataType kWanted = DLTypeOf<T>();
    if (!IsSameDevice(tensor->device, device)) {
      Fail("ValueError", index, name,
           "must be " + ToText(device) + ", and is " + ToText(tensor->device));
    }
    if (tensor->dtype.code != kWanted.code || tensor->dtype.bits != kWanted.bits ||
        tensor->dtype.lanes != kWanted.lanes) {
      Fail("TypeError", index, name,
           "has the wrong dtype: expected " + ToText(kWanted) + ", got " + ToText(tensor->dtype));
    }
    int64_t stride = 1;
    for (int axis = tensor->ndim - 1; axis >= 0 && tensor->strides != nullptr; --axis) {
      if (tensor->shape[axis] != 1 && tensor->strides[axis] != stride) {
        Fail("ValueError", index, name, "must be dense and row-major");
      }
      stride *= tensor->shape[axis] > 0 ? tensor->shape[axis] : 1;
    }
    return TensorView<T>(tensor);
  }
  // The same, of the shape given; kAny stands for any extent.
  template <typename T>
  TensorView<T> Tensor(int index, const char* name, std::initializer_list<int64_t> shape,
                       DLDevice device = kHost) const {
    const TensorView<T> tensor = Tensor<T>(index, name, device);
    bool fits = tensor.ndim() == static_cast<int>(shape.size());
    std::string wanted;
    std::string got;
    for (const int64_t extent : shape) {
      wanted += (wanted.empty() ? "" : ", ") + (extent == kAny ? "any" : std::to_string(extent));
    }
    for (int axis = 0; axis < tensor.ndim(); ++axis) {
      got += (got.empty() ? "" : ", ") + std::to_string(tensor.dim(axis));
      if (fits && shape.begin()[axis] != kAny) fits = tensor.dim(axis) == shape.begin()[axis];
    }
    if (!fits) {
      Fail("ValueError", index, name,
           "has the wrong shape: expected [" + wanted + "], got [" + got + "]");
    }
    return tensor;
  }

  // The argument as it came; its type is one of TVMFFITypeIndex.
  const TVMFFIAny& At(int index, const char* name) const {
    if (index >= count_) Fail("TypeError", index, name, "is missing");
    return args_[index];
  }
  // Throws "argument 2 (name) <problem>"; the first argument is number 1.
  [[noreturn]] static void Fail(const char* kind, int index, const char* name,
                                const std::string& problem) {
    throw Error(kind, "argument " + std::to_string(index + 1) + " (" + name + ") " + problem);
  }

 private:
  [[noreturn]] void Mismatch(int index, const char* name, const char* expected) const {
    Fail("TypeError", index, name,
         std::string("must be ") + expected + ", not " + NameOfType(args_[index].type_index));
  }
  static std::string ToText(DLDevice device) {
    if (IsHost(device)) return "in host memory";
    const std::string number = std::to_string(device.device_id);
    if (device.device_type == kDLCUDA) return "on cuda:" + number;
    return "on device " + number + " of type " + std::to_string(device.device_type);
  }
  static std::string ToText(DLDataType dtype) {
    static constexpr const char* kCodes[] = {"int",    "uint",    "float", "handle",
                                             "bfloat", "complex", "bool"};
    constexpr uint8_t kKnown = sizeof(kCodes) / sizeof(kCodes[0]);
    std::string text =
        dtype.code < kKnown ? kCodes[dtype.code] : "code" + std::to_string(dtype.code) + ":";
    text += std::to_string(dtype.bits);
    return dtype.lanes == 1 ? text : text + "x" + std::to_string(dtype.lanes);
  }

  const TVMFFIAny* args_;
  const int32_t count_;
};

}  // namespace lockstep::ffi
