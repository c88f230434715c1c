// One GPU as a worker uses it. CUDA's own headers stay behind this one: it compiles on every
// machine, and what implements it (driver/) loads libcuda while the program runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "runtime/base/status.h"
#include "runtime/cuda/stream.h"

namespace lockstep::cuda {

// What a GPU is.
struct GpuFacts {
  int index = 0;       // among those that this process sees (CUDA_VISIBLE_DEVICES)
  std::string name;    // "NVIDIA H200"
  std::string bus_id;  // "0000:3b:00.0"; the slices (MIG) of a GPU share it
  // "7f86ea80-0f4c-f6d4-54ce-a2b6de09e8ba", unique among all; a slice has one of its own.
  std::string uuid;
  int major = 0;  // compute capability
  int minor = 0;
  size_t memory_bytes = 0;
  int driver_version = 0;  // the newest CUDA that the driver knows: 13000 is 13.0
};

// "13.0", of 13000.
inline std::string CudaVersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

struct MemoryInfo {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
};

// Memory of the GPU, handed out and taken back in a stream's order: memory that was freed may be
// handed out again at once to work that the stream does later. Freed memory is kept for that (see
// Trim).
//
// Threads: safe.
class MemoryPool {
 public:
  virtual ~MemoryPool() = default;
  // kResourceExhausted: there is none. The address is aligned to 256 bytes.
  virtual StatusOr<void*> Allocate(size_t size_bytes, Stream& stream) = 0;
  virtual Status Free(void* address, Stream& stream) = 0;
  // Gives back to the GPU what is free, all but `keep_bytes`.
  virtual Status Trim(size_t keep_bytes) = 0;
  // Taken from the GPU, in use or not.
  virtual StatusOr<size_t> ReservedBytes() const = 0;
};

// Kernels that were loaded onto a GPU. They are unloaded with it, which waits for those that run.
class KernelModule {
 public:
  virtual ~KernelModule() = default;
  // kInternal: there is none of that name.
  virtual StatusOr<Kernel> Find(const std::string& name) = 0;
};

// Threads: safe; those that use a GPU or anything of it call Bind() first, once.
// Ownership: streams, events, pools and kernels are used while the GPU lives.
//
// Errors:
//   kResourceExhausted  no memory
//   kInternal           the GPU refused, or its context is lost; names the call and CUDA's reason
class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  virtual ~Gpu() = default;

  virtual const GpuFacts& facts() const = 0;

  // Makes this GPU the calling thread's, for modules' calls of the CUDA runtime too.
  virtual Status Bind() = 0;

  virtual StatusOr<std::unique_ptr<Stream>> NewStream() = 0;
  // `timed`: can be asked for times, which costs a little.
  virtual StatusOr<std::unique_ptr<Event>> NewEvent(bool timed = false) = 0;
  virtual StatusOr<std::unique_ptr<MemoryPool>> NewPool() = 0;

  // Host memory that the GPU copies from and to at full speed, without a staging copy of the
  // driver's.
  virtual StatusOr<void*> AllocateHost(size_t size_bytes) = 0;
  virtual void FreeHost(void* address) = 0;

  // One of kernels/, by name. kUnimplemented: this GPU is older than any that they are compiled
  // for.
  virtual StatusOr<Kernel> FindKernel(const char* name) = 0;

  // What a compiler has made: a CUBIN, a fat binary, or PTX, which is copied. kUnimplemented: it is
  // for other GPUs, or the driver is too old for it.
  virtual StatusOr<std::unique_ptr<KernelModule>> LoadKernels(
      absl::Span<const std::byte> image) = 0;

  virtual StatusOr<MemoryInfo> Memory() const = 0;

  // Not OK once an error has been seen after which nothing works on this GPU in this process any
  // more: an illegal address in a kernel, say. The first such error. All that is left is to end the
  // process.
  virtual Status Loss() const = 0;
};

// OK if this process can use a GPU. kUnavailable says what is missing (in this build, on this
// machine), and how to get it.
Status Available();

// The GPUs that this process sees. Errors as Available().
StatusOr<std::vector<GpuFacts>> ListGpus();

// The GPU number `index` of those. Opening one again gives another handle to the same context,
// which all libraries of the process share. kNotFound says how many there are.
StatusOr<std::shared_ptr<Gpu>> OpenGpu(int index);

}  // namespace lockstep::cuda
