// A libcuda.so.1 for machines without a GPU: what of the driver's API runtime/cuda uses, done by
// threads.
//
// It is made to find mistakes, not to be quick. What a stream is given is done later, by a thread
// of its own. Device memory cannot be touched by the host: code that does gets a segmentation
// fault, as with a GPU. Freed memory is overwritten when the stream comes to it; the pool keeps it
// until it is trimmed, and others do not get it. After an error
// that loses the context every call fails. A thread for which no GPU is current cannot launch,
// copy, allocate or make anything (CUDA_ERROR_INVALID_CONTEXT); a launch into a stream of another
// GPU than the current one, or an event of another than the stream's, is CUDA_ERROR_INVALID_HANDLE.
//
// Streams can be captured, by CUDA's rules: what waits, or allocates beside the stream's order, and
// questions about events fail, and invalidate the capture; other streams join it by events, and
// have to be joined to the first one again. A graph does its work in the most unexpected order that
// its dependencies allow. One that is destroyed while it is executed is a misuse
// (CUDA_ERROR_ILLEGAL_STATE).
//
// It has as many GPUs as $FAKE_CUDA_DEVICES says (8), with $FAKE_CUDA_MEMORY_MIB each (256). With
// $FAKE_CUDA_SLICES (1) so many of them, one after the other, are slices (MIG) of one GPU.
// Programs that load libcuda.so.1 find it by LD_LIBRARY_PATH, or because they are linked with it.
#pragma once

#include <cstddef>
#include <cstdint>

// A kernel of a module, as the host runs it: a library that $FAKE_CUDA_KERNELS names
// (several, with ":" between) has it as `fake_kernel_<name>`.
struct FakeKernel {
  size_t parameter_bytes;  // of the struct that a launch passes
  void (*run)(const void* parameters);
};

// A kernel of an image that was loaded, which is a shared object of the host's: it has this as
// `fake_function_<name>` (host_kernels.h).
struct FakeFunction {
  size_t parameters;
  const size_t* parameter_bytes;  // of each, at most 8
  // `words`: a parameter each. By so many blocks of so many threads.
  void (*run)(const uint64_t* words, unsigned blocks, unsigned threads);
};

// Defines it by its body (runtime/base/kernel.h).
#define FAKE_CUDA_KERNEL(name, Body)              \
  extern "C" const FakeKernel fake_kernel_##name; \
  const FakeKernel fake_kernel_##name = {         \
      sizeof(Body), [](const void* body) { static_cast<const Body*>(body)->Run(0, 1); }}

extern "C" {

// Does `work(argument)` in the stream's turn: a kernel of the test's own. `stream` is a CUstream.
void fake_cuda_enqueue(void* stream, void (*work)(void* argument), void* argument);

// Whether the stream is captured. Then what is done there is put into its graph: `work(argument)`,
// with each launch. `release(argument)` is called when the last of the graph is destroyed.
int fake_cuda_is_capturing(const void* stream);
void fake_cuda_capture(void* stream, void (*work)(void* argument), void* argument,
                       void (*release)(void* argument));
// How many graphs were launched.
int fake_cuda_graph_launches(void);
// How often something was done that CUDA leaves undefined, or that hides a mistake.
int fake_cuda_misuses(void);

// Where the host finds what is at a device address; any other address is given back as it is.
void* fake_cuda_host_view(const void* address);

// The number of the calling thread's GPU; -1: none is current.
int fake_cuda_current_device(void);
// That of the GPU of a CUstream.
int fake_cuda_device_of_stream(const void* stream);

// Memory of the calling thread's GPU, as a library gets it that is no part of the program; null:
// there is none.
void* fake_cuda_allocate(size_t size_bytes);
void fake_cuda_free(void* address);

// From now on every call that can tell of an error on the device gives this one (a CUresult), as
// after an illegal address in a kernel; 0: none any more.
void fake_cuda_set_sticky_error(int result);

// Bytes of all devices that are allocated, and not freed, as seen by the calls made (not by the
// streams).
size_t fake_cuda_allocated_bytes(void);

}  // extern "C"
