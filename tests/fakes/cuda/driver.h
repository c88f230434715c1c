// What the parts of the fake driver share: what handles are, the GPUs, what is captured, and which
// error every call returns.
#pragma once

#include <cuda.h>
// As drivers before 12.8 have it, which later headers call _v2.
#undef cuEventElapsedTime

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "tests/fakes/cuda/capture.h"
#include "tests/fakes/cuda/device.h"
#include "tests/fakes/cuda/stream.h"

// What CUDA only declares.
struct CUstream_st {
  const int device;
  lockstep::fake_cuda::Stream work;
  std::shared_ptr<lockstep::fake_cuda::Capture> capture = nullptr;  // null: it is not captured
};
struct CUevent_st {
  const int device;
  // Where it was recorded last; null: in no capture.
  std::shared_ptr<lockstep::fake_cuda::Capture> captured_by = nullptr;
  std::set<size_t> captured_after = {};
  // Streams may still come to one that was destroyed.
  std::shared_ptr<lockstep::fake_cuda::Event> event =
      std::make_shared<lockstep::fake_cuda::Event>();
};
// Keeps what is freed, for its own use, until it is trimmed.
struct CUmemPoolHandle_st {
  const int device;
  std::mutex mutex = {};  // guards what follows
  size_t live_bytes = 0;
  size_t reserved_bytes = 0;
  std::map<void*, size_t> live = {};
};
struct CUctx_st {
  int device;
};
// As the functions that look for one call it.
struct CUkern_st {};
struct CUlib_st {};
struct CUgraph_st {
  std::shared_ptr<const lockstep::fake_cuda::Graph> graph;
};
struct CUgraphExec_st {
  std::shared_ptr<lockstep::fake_cuda::Executable> executable;
};

namespace lockstep::fake_cuda {

// A number of the environment.
size_t Setting(const char* name, size_t otherwise);

// One GPU: its memory, and the pool that is part of it.
class Gpu {
 public:
  explicit Gpu(int number);

  // Bytes that nothing has: the pool's are not free, in use or not.
  size_t FreeBytes();
  // Null if there is no room.
  void* AllocateFromPool(size_t size_bytes);
  // Nothing, if it is not the pool's.
  void FreeToPool(void* address);

  Memory memory;
  CUctx_st context;
  CUmemPoolHandle_st pool;
};

// All of them, by number.
std::vector<std::unique_ptr<Gpu>>& Gpus();

extern thread_local CUcontext current_context;

// Guards captures: those of streams, of events, and these.
extern std::mutex captures_mutex;
// Begun by this thread, and not ended.
extern thread_local std::shared_ptr<Capture> own_capture;
// Begun by any thread, in the mode that forbids something to all.
extern std::weak_ptr<Capture> global_capture;
// What this thread has asked for by cuThreadExchangeStreamCaptureMode.
extern thread_local CUstreamCaptureMode capture_mode;
extern std::atomic<int> misuses;
extern std::atomic<int> graph_launches;
// What every call returns from now on: an error that loses the context.
extern std::atomic<int> sticky_error;
inline CUresult Sticky() { return static_cast<CUresult>(sticky_error.load()); }

// Puts work into a stream, or into the graph that captures it.
CUresult Put(CUstream stream, std::function<void()> work);
// What is not possible in a capture ends it: returns `why`.
CUresult Refuse(Capture& capture, CUresult why);
// Before a call that may wait, or that has an effect which no graph repeats.
CUresult CheckThatNothingIsCaptured();
// Before a call for an event that was recorded in a capture, which never happens by itself.
CUresult CheckThatEventIsNoneOfACapture(CUevent event);
// Not even that: before a call that is refused for a stream which is captured.
CUresult CheckThatStreamIsNotCaptured(CUstream stream);

}  // namespace lockstep::fake_cuda

#define RETURN_IF_NOT_OK(call) \
  if (const CUresult result = (call); result != CUDA_SUCCESS) return result
#define RETURN_IF_STICKY() \
  if (Sticky() != CUDA_SUCCESS) return Sticky()
// What CUDA says to a thread for which no GPU is current.
#define RETURN_IF_UNBOUND() \
  RETURN_IF_STICKY();       \
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT
