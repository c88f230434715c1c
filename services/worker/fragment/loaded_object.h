// A compiled fragment in this process: loaded from memory, and called. What is compiled for the
// host is loaded here; loaded_kernel.h has what is compiled for a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/shape.h"
#include "runtime/base/status.h"
#include "runtime/fragment/abi.h"
#include "runtime/fragment/compile_codec.h"
#include "runtime/fragment/loop_threads.h"
#include "runtime/fragment/signature.h"
#include "runtime/tensor/processor.h"
#include "runtime/tensor/storage.h"

namespace lockstep::worker {

// What one call may take.
struct CallResources {
  // What intermediate values are made of: borrowed until the call returns.
  tensor::Allocator& memory;
  // The most bytes that the call has at once.
  size_t most_bytes = 0;
  // Borrowed likewise: not 0 once the call is to end. Any thread may write it, atomically.
  const volatile int32_t* abort = nullptr;
  // A BLAS, if there is one (LockstepFragmentContext::matmul).
  int32_t (*matmul)(LockstepFragmentContext*, const LockstepFragmentMatmul*) = nullptr;
  // Threads for its loops: borrowed likewise; null: the caller's alone.
  fragment::LoopThreads* threads = nullptr;
  // Who works where the results lie; null: they lie in host memory.
  tensor::Processor* device = nullptr;
};

// Unloaded with its last user.
//
// Threads: any number of calls at once, where it computes in host memory; else those of the device.
class LoadedObject {
 public:
  // A shared object for the host. It owns a descriptor, and the mapping. kInternal: the system
  // refuses to load it, or it lacks the entries of this version of the ABI. kResourceExhausted: no
  // memory or descriptor.
  static StatusOr<std::shared_ptr<const LoadedObject>> Load(const fragment::Compiled& compiled);
  virtual ~LoadedObject() = default;
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  const fragment::Signature& signature() const { return signature_; }
  size_t size_bytes() const { return size_bytes_; }
  // Whether tensors are to lie on the worker's GPU: numbers lie in host memory all the same.
  virtual bool computes_on_device() const = 0;

  // The shapes of the results. None: not known before it runs.
  StatusOr<std::vector<std::optional<Shape>>> ResultShapes(
      absl::Span<const LockstepFragmentTensor> arguments, const CallResources& resources) const;

  // Computes into `results`, in the signature's order; see abi.h. Memory that the fragment has not
  // released is freed, however it ends. On a device, it is computed some time later.
  //
  // Errors: kInvalidArgument    division by zero or with overflow, a result of another size, a
  //                             negative size
  //         kOutOfRange         an index beyond a tensor
  //         kResourceExhausted  it wants more than `most_bytes`, or than there is
  //         kAborted            `abort` was set
  // All of these say where in the fragment.
  Status Run(absl::Span<const LockstepFragmentTensor> arguments,
             absl::Span<const LockstepFragmentTensor> results,
             const CallResources& resources) const;

 protected:
  explicit LoadedObject(const fragment::Compiled& compiled)
      : signature_(compiled.signature), size_bytes_(compiled.object.size()) {}

 private:
  // The same, of as many as the signature has. `extents`: those of all results, one after the
  // other, kOpen where they are not known before it runs.
  virtual Status TellSizes(absl::Span<const LockstepFragmentTensor> arguments,
                           const CallResources& resources, std::vector<int64_t>* extents) const = 0;
  virtual Status Compute(absl::Span<const LockstepFragmentTensor> arguments,
                         absl::Span<const LockstepFragmentTensor> results,
                         const CallResources& resources) const = 0;

  const fragment::Signature signature_;
  const size_t size_bytes_;
};

}  // namespace lockstep::worker
