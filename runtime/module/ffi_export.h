// For authors of modules: functions that Lockstep (or anything else that speaks tvm-ffi) can call.
//
//     #include "runtime/module/ffi_export.h"
//
//     // Adds `step` to every element of x, in place.
//     LOCKSTEP_FFI_EXPORT(add_step, args, result) {
//       args.ExpectCount(2);
//       auto x = args.Tensor<float>(0, "x");
//       const auto step = static_cast<float>(args.Float(1, "step"));
//       for (float& element : x) element += step;
//     }
//
// Built as a shared library, this is function "add_step" of that module. It needs the C headers of
// tvm-ffi and nothing else: no library to link (the loading process provides the TVMFFI* symbols).
//
// Errors: throw ffi::Error, or let a std::exception escape the body; both become the error of the
//     call. Kinds "TypeError" and "ValueError" mean that the arguments are wrong; any other kind
//     ("RuntimeError", ...) that the function failed.
// Threads: several workers of one process may run the same function at the same time.
// Ownership: arguments are borrowed until the function returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "dlpack/dlpack.h"
#include "tvm/ffi/c_api.h"
#include "tvm/ffi/extra/c_env_api.h"

// The body that follows defines the function. `args` is an ffi::Args&, `result` an ffi::Result&;
// the result is none unless it is set. Either may go unused.
#define LOCKSTEP_FFI_EXPORT(name, args, result)                                             \
  static void lockstep_ffi_body_##name([[maybe_unused]] const ::lockstep::ffi::Args& args,  \
                                       [[maybe_unused]] ::lockstep::ffi::Result& result);   \
  extern "C" __attribute__((visibility("default"))) int __tvm_ffi_##name(                   \
      void*, const TVMFFIAny* raw_args, int32_t count, TVMFFIAny* raw_result) {             \
    return ::lockstep::ffi::RunBody(lockstep_ffi_body_##name, raw_args, count, raw_result); \
  }                                                                                         \
  static void lockstep_ffi_body_##name([[maybe_unused]] const ::lockstep::ffi::Args& args,  \
                                       [[maybe_unused]] ::lockstep::ffi::Result& result)

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

// A dense, row-major tensor in host memory. The memory is borrowed.
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

// The arguments of one call. Every reader names the argument in its error.
class Args {
 public:
  Args(const TVMFFIAny* args, int32_t count) : args_(args), count_(count) {}

  int count() const { return count_; }
  void ExpectCount(int expected) const {
    if (count_ == expected) return;
    throw Error("TypeError", "expected " + std::to_string(expected) + " arguments, got " +
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

  // Any tensor at all, as DLPack describes it.
  const DLTensor* RawTensor(int index, const char* name) const {
    const TVMFFIAny& arg = At(index, name);
    if (arg.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(arg.v_ptr);
    if (arg.type_index != kTVMFFITensor) Mismatch(index, name, "a tensor");
    return reinterpret_cast<const DLTensor*>(arg.v_obj + 1);
  }
  // A tensor of T in host memory, dense and row-major, of any shape.
  template <typename T>
  TensorView<T> Tensor(int index, const char* name) const {
    const DLTensor* tensor = RawTensor(index, name);
    constexpr DLDataType kWanted = DLTypeOf<T>();
    if (tensor->device.device_type != kDLCPU && tensor->device.device_type != kDLCUDAHost) {
      Fail("ValueError", index, name, "must be in host memory");
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
  TensorView<T> Tensor(int index, const char* name, std::initializer_list<int64_t> shape) const {
    const TensorView<T> tensor = Tensor<T>(index, name);
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
         std::string("is not ") + expected + " but of type index " +
             std::to_string(args_[index].type_index));
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

// What the call returns; the last one set holds.
class Result {
 public:
  explicit Result(TVMFFIAny* any) : any_(any) {}

  void SetInt(int64_t value) { Reset(kTVMFFIInt).v_int64 = value; }
  void SetFloat(double value) { Reset(kTVMFFIFloat).v_float64 = value; }
  void SetBool(bool value) { Reset(kTVMFFIBool).v_int64 = value ? 1 : 0; }
  void SetText(std::string_view text) {
    const TVMFFIByteArray bytes{text.data(), text.size()};
    Check(TVMFFIStringFromByteArray(&bytes, &Reset(kTVMFFINone)));
  }

  // Makes a new tensor in host memory the result and returns a view of it, for the body to fill.
  // The memory is the worker's own: collectives read it without a copy. Contents are undefined.
  template <typename T>
  TensorView<T> NewTensor(std::initializer_list<int64_t> shape) {
    DLTensor prototype{};
    prototype.device = {kDLCPU, 0};
    prototype.dtype = DLTypeOf<T>();
    prototype.ndim = static_cast<int32_t>(shape.size());
    prototype.shape = const_cast<int64_t*>(shape.begin());
    TVMFFIObjectHandle tensor = nullptr;
    Check(TVMFFIEnvTensorAlloc(&prototype, &tensor));
    Reset(kTVMFFITensor).v_obj = static_cast<TVMFFIObject*>(tensor);
    return TensorView<T>(reinterpret_cast<const DLTensor*>(any_->v_obj + 1));
  }

 private:
  // Thrown where the runtime has already recorded what went wrong.
  struct AlreadyRaised {};
  template <typename Body>
  friend int RunBody(Body body, const TVMFFIAny* args, int32_t count, TVMFFIAny* raw_result);

  TVMFFIAny& Reset(int32_t type_index) {
    Release();
    any_->type_index = type_index;
    any_->zero_padding = 0;
    any_->v_uint64 = 0;
    return *any_;
  }
  void Release() {
    if (any_->type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(any_->v_obj);
    any_->type_index = kTVMFFINone;
    any_->v_uint64 = 0;
  }
  static void Check(int code) {
    if (code != 0) throw AlreadyRaised();
  }

  TVMFFIAny* const any_;
};

// Runs the body of one call and turns what it throws into the ABI's error. The macro's business.
template <typename Body>
int RunBody(Body body, const TVMFFIAny* args, int32_t count, TVMFFIAny* raw_result) {
  Result result(raw_result);
  try {
    body(Args(args, count), result);
    return 0;
  } catch (const Result::AlreadyRaised&) {  // nothing to add
  } catch (const Error& error) {
    TVMFFIErrorSetRaisedFromCStr(error.kind().c_str(), error.what());
  } catch (const std::exception& error) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
  } catch (...) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "threw something that is no std::exception");
  }
  result.Release();
  return -1;
}

}  // namespace lockstep::ffi
