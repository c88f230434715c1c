// Tensors between Lockstep and tvm-ffi, both ways without copying.
#pragma once

#include "runtime/base/status.h"
#include "runtime/module/ffi_object.h"
#include "runtime/module/function.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::module {

// A tvm-ffi tensor object that shares, and keeps alive, the memory of `tensor`.
StatusOr<FfiRef> ToFfiTensor(const tensor::Tensor& tensor);

// A tensor that shares, and keeps alive, the memory of the tvm-ffi tensor `object`.
// kInvalidArgument if it has a dtype or a device that Lockstep does not know, or is not dense and
// row-major.
StatusOr<tensor::Tensor> FromFfiTensor(FfiRef object);

// What modules ask the runtime for, on this thread while it lives. Tensors that they allocate
// (TVMFFIEnvTensorAlloc) come from the worker's memory, so that collectives can work on results
// directly; the current stream of the worker's GPU is its stream for what functions compute.
class FfiEnvironment {
 public:
  // `context` is borrowed.
  explicit FfiEnvironment(const CallContext& context);
  ~FfiEnvironment();
  FfiEnvironment(const FfiEnvironment&) = delete;
  FfiEnvironment& operator=(const FfiEnvironment&) = delete;

 private:
  const CallContext& context_;
  const CallContext* const previous_;
  void* previous_stream_ = nullptr;
};

}  // namespace lockstep::module
