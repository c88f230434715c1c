// What a function returns, and memory for its time. Part of ffi_export.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "runtime/module/kit/tensor_view.h"
#include "tvm/ffi/c_api.h"
#include "tvm/ffi/extra/c_env_api.h"

namespace lockstep::ffi {

// Thrown where the runtime has already recorded what went wrong.
struct AlreadyRaised {};

// A tensor of the worker's memory with `ndim` extents; contents are undefined. The caller has it to
// release.
template <typename T>
TVMFFIObject* Allocate(const int64_t* shape, size_t ndim, DLDevice device) {
  DLTensor prototype{};
  prototype.device = device;
  prototype.dtype = DLTypeOf<T>();
  prototype.ndim = static_cast<int32_t>(ndim);
  prototype.shape = const_cast<int64_t*>(shape);
  TVMFFIObjectHandle tensor = nullptr;
  if (TVMFFIEnvTensorAlloc(&prototype, &tensor) != 0) throw AlreadyRaised();
  return static_cast<TVMFFIObject*>(tensor);
}

// Memory for the time of a call. On a GPU it is there for all that the call puts into the stream.
template <typename T>
class Scratch {
 public:
  Scratch(int64_t count, DLDevice device) : tensor_(Allocate<T>(&count, 1, device)) {}
  ~Scratch() { TVMFFIObjectDecRef(tensor_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return TensorView<T>(reinterpret_cast<const DLTensor*>(tensor_ + 1)).data(); }

 private:
  TVMFFIObject* const tensor_;
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
    if (TVMFFIStringFromByteArray(&bytes, &Reset(kTVMFFINone)) != 0) throw AlreadyRaised();
  }

  // A shape with these extents, outermost first.
  void SetShape(const std::vector<int64_t>& extents) {
    constexpr std::string_view kName = "ffi.Shape";
    const TVMFFIByteArray name{kName.data(), kName.size()};
    TVMFFIObjectHandle make = nullptr;
    if (TVMFFIFunctionGetGlobal(&name, &make) != 0) throw AlreadyRaised();
    if (make == nullptr) throw Error("RuntimeError", "tvm-ffi has no function \"ffi.Shape\"");
    std::vector<TVMFFIAny> args(extents.size());
    for (size_t i = 0; i < extents.size(); ++i) {
      args[i] = TVMFFIAny{};
      args[i].type_index = kTVMFFIInt;
      args[i].v_int64 = extents[i];
    }
    const int failed = TVMFFIFunctionCall(make, args.data(), static_cast<int32_t>(args.size()),
                                          &Reset(kTVMFFINone));
    TVMFFIObjectDecRef(make);
    if (failed != 0) throw AlreadyRaised();
  }

  // Makes a new tensor the result and returns a view of it, for the body to fill. The memory is the
  // worker's own: collectives read it without a copy. Contents are undefined.
  template <typename T>
  TensorView<T> NewTensor(std::initializer_list<int64_t> shape, DLDevice device = kHost) {
    return NewTensorOf<T>(shape.begin(), shape.size(), device);
  }
  // The same, with extents that are known only now: those of Args::Shape().
  template <typename T>
  TensorView<T> NewTensor(const std::vector<int64_t>& shape, DLDevice device = kHost) {
    return NewTensorOf<T>(shape.data(), shape.size(), device);
  }

 private:
  template <typename T>
  TensorView<T> NewTensorOf(const int64_t* shape, size_t ndim, DLDevice device) {
    TVMFFIObject* const tensor = Allocate<T>(shape, ndim, device);
    Reset(kTVMFFITensor).v_obj = tensor;
    return TensorView<T>(reinterpret_cast<const DLTensor*>(tensor + 1));
  }

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
  TVMFFIAny* const any_;
};

}  // namespace lockstep::ffi
