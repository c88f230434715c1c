// Tensors between Lockstep and tvm-ffi, both ways without copying.
#pragma once

#include "runtime/base/status.h"
#include "runtime/module/ffi_object.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::module {

// A tvm-ffi tensor object that shares, and keeps alive, the memory of `tensor`.
StatusOr<FfiRef> ToFfiTensor(const tensor::Tensor& tensor);

// A tensor that shares, and keeps alive, the memory of the tvm-ffi tensor `object`.
// kInvalidArgument if it has a dtype or a device that Lockstep does not know, or is not dense and
// row-major.
StatusOr<tensor::Tensor> FromFfiTensor(FfiRef object);

// While it lives, tensors that modules allocate through the runtime (TVMFFIEnvTensorAlloc) on this
// thread come from `allocator`, so that collectives can work on results directly.
class FfiAllocatorScope {
 public:
  explicit FfiAllocatorScope(tensor::Allocator* allocator);
  ~FfiAllocatorScope();
  FfiAllocatorScope(const FfiAllocatorScope&) = delete;
  FfiAllocatorScope& operator=(const FfiAllocatorScope&) = delete;

 private:
  tensor::Allocator* const previous_;
};

}  // namespace lockstep::module
