// Tensors between Lockstep and tvm-ffi, both ways without copying; for a call they are aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <memory>

#include "runtime/base/status.h"
#include "runtime/module/ffi_object.h"
#include "runtime/module/function.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::module {

class FfiArguments;

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
  // Both are borrowed: where the call runs, and what it is given.
  FfiEnvironment(const CallContext& context, const FfiArguments& arguments);
  ~FfiEnvironment();
  FfiEnvironment(const FfiEnvironment&) = delete;
  FfiEnvironment& operator=(const FfiEnvironment&) = delete;

  // This thread's innermost one; null outside of a module's function.
  static const FfiEnvironment* Current();

  const CallContext& context() const { return context_; }
  const FfiArguments& arguments() const { return arguments_; }

 private:
  const CallContext& context_;
  const FfiArguments& arguments_;
  const FfiEnvironment* const previous_;
  void* previous_stream_ = nullptr;
};

// True if a module may be given the tensor's own memory. Compiled kernels assume that tensors begin
// at a multiple of Allocator::kAlignment, and crash, or worse, where one does not: a view of some
// rows of another tensor. (DLPack could say so by its byte_offset, but most kernels overlook it.)
// Nothing is known of memory that the worker cannot read, nor wanted of none.
inline bool IsAlignedForModules(const tensor::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data()) % tensor::Allocator::kAlignment == 0 ||
         tensor.device().type != DeviceType::kCpu || tensor.NumElements() == 0;
}

// The copies that are lent to one call instead of misaligned tensors. What the function changes in
// one is brought back afterwards, byte by byte, so that it does to a view what it does to any
// tensor, even if it has the whole tensor, too, or another view of it. Only a function that changes
// a byte by one of two arguments and then reads it by the other sees the difference.
//
// Threads: one. Ownership: copies live as long as this does.
class LentCopies {
 public:
  // A copy of `tensor`, which is misaligned and outlives the call. Errors of `allocator`.
  StatusOr<DLTensor*> LendCopy(const tensor::Tensor& tensor, tensor::Allocator& allocator);

  // Brings back what the function changed, should it have failed, too.
  void BringBack() const;

  // The tensor that was lent as the copy `dl`; null if none was.
  const tensor::Tensor* OriginalOf(const void* dl) const;

 private:
  struct Copy {
    tensor::Tensor original;
    tensor::Tensor copy;
    std::unique_ptr<std::byte[]> before;  // what both held before the call
  };
  std::forward_list<Copy> copies_;
};

}  // namespace lockstep::module
