// A compiled fragment in this process: loaded from memory, and called.
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
};

// Unloaded with its last user.
//
// Threads: any number of calls at once. Ownership: a descriptor, and the mapping.
class LoadedObject {
 public:
  // kInternal: the system refuses to load it, or it lacks the entries of this version of the ABI.
  // kResourceExhausted: no memory or descriptor.
  static StatusOr<std::shared_ptr<const LoadedObject>> Load(const fragment::Compiled& compiled);
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  const fragment::Signature& signature() const { return signature_; }
  size_t size_bytes() const { return size_bytes_; }

  // The shapes of the results. None: not known before it runs.
  StatusOr<std::vector<std::optional<Shape>>> ResultShapes(
      absl::Span<const LockstepFragmentTensor> arguments, const CallResources& resources) const;

  // Computes into `results`, in the signature's order; see abi.h. Memory that the fragment has not
  // released is freed, however it ends.
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

 private:
  LoadedObject(const fragment::Compiled& compiled, int fd, void* handle);

  const fragment::Signature signature_;
  const size_t size_bytes_;
  const int fd_;
  void* const handle_;
  const LockstepFragmentRun run_;
  const LockstepFragmentSizes sizes_;
};

}  // namespace lockstep::worker
