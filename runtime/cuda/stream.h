// Streams, events and kernels: what a GPU does in which order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/collective/device.h"

// CUDA's and HIP's own handles, by the names that their headers give them.
struct CUstream_st;
struct CUfunc_st;

namespace lockstep::cuda {

using StreamHandle = CUstream_st*;

// A kernel, as it was found (Gpu::FindKernel).
struct Kernel {
  CUfunc_st* handle = nullptr;
};

// A point in a stream's work, as it was recorded last.
class Event : public collective::DeviceEvent {};

// Work that was captured, as it is launched: all of it at once.
//
// Ownership: none of its launches is under way when it is destroyed, and what it works with, such
// as communicators of NCCL's, is destroyed after it.
class Graph {
 public:
  virtual ~Graph() = default;
};

// Work that is done one after the other. What is put in is begun some time later; the caller does
// not wait.
//
// Threads: one at a time. Buffers are borrowed until the work is done.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual StreamHandle handle() const = 0;

  // True if all that was put in is done. The error of work on this GPU that failed, as Event's.
  virtual StatusOr<bool> IsIdle() const = 0;

  virtual Status Record(Event& event) = 0;
  // What is put in after this waits for what `event`, of any stream, was recorded after.
  virtual Status WaitFor(const Event& event) = 0;

  // Between any two of: memory of this GPU, of another one, of the host (pinned: else the caller
  // may wait).
  virtual Status Copy(void* to, const void* from, size_t size_bytes) = 0;
  // `rows` rows of `row_bytes`, which begin `pitch` bytes apart on either side.
  virtual Status CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                          size_t row_bytes, size_t rows) = 0;

  // Runs `kernel` by at least `threads` threads, or fewer that take several turns: kernels of
  // kernels/ go on in steps of the grid. `parameters` is copied.
  virtual Status Launch(Kernel kernel, uint64_t threads, const void* parameters) = 0;

  // Runs `kernel` by one thread for each of `threads`, and by more up to a whole block of
  // kThreadsPerBlock. `parameters`: where each of them lies; they are copied. kInvalidArgument:
  // more threads than a launch has.
  static constexpr unsigned kThreadsPerBlock = 256;
  virtual Status LaunchForEach(Kernel kernel, uint64_t threads,
                               absl::Span<void* const> parameters) = 0;

  // What is put in between the two, here and in streams that wait for events of it, is not done,
  // but becomes a graph. Those streams are waited for again before the end. Until then, the calling
  // thread asks no event, and allocates and frees in other streams only: that fails, and so does
  // the end.
  virtual Status BeginCapture() = 0;
  virtual StatusOr<std::unique_ptr<Graph>> EndCapture() = 0;
  virtual Status Launch(Graph& graph) = 0;
};

}  // namespace lockstep::cuda
