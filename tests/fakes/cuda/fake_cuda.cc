#include "tests/fakes/cuda/fake_cuda.h"

#include <cuda.h>
// As drivers before 12.8 have it, which later headers call _v2.
#undef cuEventElapsedTime

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/capture.h"
#include "tests/fakes/cuda/device.h"
#include "tests/fakes/cuda/kernels.h"
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
namespace {

size_t Setting(const char* name, size_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

struct Gpu {
  explicit Gpu(int number)
      : memory(Setting("FAKE_CUDA_MEMORY_MIB", 256) << 20), context{number}, pool{number} {}

  // Bytes that nothing has: the pool's are not free, in use or not.
  size_t FreeBytes() {
    std::lock_guard lock(pool.mutex);
    return memory.size_bytes() - memory.allocated_bytes() - (pool.reserved_bytes - pool.live_bytes);
  }
  void* AllocateFromPool(size_t size_bytes) {
    std::lock_guard lock(pool.mutex);
    void* const address = memory.Allocate(size_bytes);
    if (address == nullptr) return nullptr;
    pool.live[address] = size_bytes;
    pool.live_bytes += size_bytes;
    pool.reserved_bytes = std::max(pool.reserved_bytes, pool.live_bytes);
    return address;
  }
  void FreeToPool(void* address) {
    std::lock_guard lock(pool.mutex);
    const auto found = pool.live.find(address);
    if (found == pool.live.end()) return;
    pool.live_bytes -= found->second;
    pool.live.erase(found);
    memory.Free(address);
  }

  Memory memory;
  CUctx_st context;
  CUmemPoolHandle_st pool;
};

// Never destroyed: streams of other libraries may outlive what the program has.
std::vector<std::unique_ptr<Gpu>>& Gpus() {
  static auto* const gpus = [] {
    auto* made = new std::vector<std::unique_ptr<Gpu>>;
    const size_t count = Setting("FAKE_CUDA_DEVICES", 8);
    for (size_t i = 0; i < count; ++i) made->push_back(std::make_unique<Gpu>(static_cast<int>(i)));
    return made;
  }();
  return *gpus;
}

thread_local CUcontext current_context = nullptr;

// Guards captures: those of streams, of events, and these.
std::mutex captures_mutex;
// Begun by this thread, and not ended.
thread_local std::shared_ptr<Capture> own_capture;
// Begun by any thread, in the mode that forbids something to all.
std::weak_ptr<Capture> global_capture;
std::atomic<int> misuses{0};
std::atomic<int> graph_launches{0};

std::atomic<int> sticky_error{CUDA_SUCCESS};

CUresult Sticky() { return static_cast<CUresult>(sticky_error.load()); }

template <typename T>
T* View(T* address) {
  return static_cast<T*>(fake_cuda_host_view(address));
}

// Puts work into a stream, or into the graph that captures it.
CUresult Put(CUstream stream, std::function<void()> work) {
  std::lock_guard lock(captures_mutex);
  if (stream->capture != nullptr) return stream->capture->Add(stream, std::move(work));
  stream->work.Add(std::move(work));
  return CUDA_SUCCESS;
}

// What is not possible in a capture ends it.
CUresult Refuse(Capture& capture, CUresult why) {
  capture.Invalidate();
  return why;
}

// Before a call that may wait, or that has an effect which no graph repeats.
CUresult CheckThatNothingIsCaptured() {
  std::lock_guard lock(captures_mutex);
  const auto global = global_capture.lock();
  if (global != nullptr && global->is_active()) {
    return Refuse(*global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  if (own_capture == nullptr || own_capture->mode() == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_SUCCESS;
  }
  return Refuse(*own_capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

// Before a call for an event that was recorded in a capture, which never happens by itself.
CUresult CheckThatEventIsNoneOfACapture(CUevent event) {
  std::lock_guard lock(captures_mutex);
  if (event->captured_by == nullptr) return CUDA_SUCCESS;
  return Refuse(*event->captured_by, CUDA_ERROR_CAPTURED_EVENT);
}

// Not even that: before a call that is refused for a stream which is captured.
CUresult CheckThatStreamIsNotCaptured(CUstream stream) {
  std::lock_guard lock(captures_mutex);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  return Refuse(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void CopyRows(const CUDA_MEMCPY2D& copy) {
  for (size_t row = 0; row < copy.Height; ++row) {
    std::memmove(reinterpret_cast<std::byte*>(copy.dstDevice) + row * copy.dstPitch,
                 reinterpret_cast<const std::byte*>(copy.srcDevice) + row * copy.srcPitch,
                 copy.WidthInBytes);
  }
}

}  // namespace
}  // namespace lockstep::fake_cuda

using namespace lockstep::fake_cuda;

#define RETURN_IF_NOT_OK(call) \
  if (const CUresult result = (call); result != CUDA_SUCCESS) return result
#define RETURN_IF_STICKY() \
  if (Sticky() != CUDA_SUCCESS) return Sticky()
// What CUDA says to a thread for which no GPU is current.
#define RETURN_IF_UNBOUND() \
  RETURN_IF_STICKY();       \
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT

extern "C" {

void fake_cuda_enqueue(void* stream, void (*work)(void*), void* argument) {
  (void)Put(static_cast<CUstream>(stream), [=] { work(argument); });
}

int fake_cuda_is_capturing(const void* stream) {
  std::lock_guard lock(captures_mutex);
  return static_cast<const CUstream_st*>(stream)->capture != nullptr ? 1 : 0;
}

void fake_cuda_capture(void* stream, void (*work)(void*), void* argument, void (*release)(void*)) {
  const std::shared_ptr<void> held(argument, release);
  (void)Put(static_cast<CUstream>(stream), [=] { work(held.get()); });
}

int fake_cuda_misuses() { return misuses; }
int fake_cuda_graph_launches() { return graph_launches; }

void* fake_cuda_host_view(const void* address) {
  for (const auto& gpu : Gpus()) {
    if (gpu->memory.Contains(address)) return gpu->memory.HostView(address);
  }
  return const_cast<void*>(address);
}

int fake_cuda_current_device() { return current_context == nullptr ? -1 : current_context->device; }
int fake_cuda_device_of_stream(const void* stream) {
  return static_cast<const CUstream_st*>(stream)->device;
}

void* fake_cuda_allocate(size_t size_bytes) {
  if (current_context == nullptr || CheckThatNothingIsCaptured() != CUDA_SUCCESS) return nullptr;
  Gpu& gpu = *Gpus()[static_cast<size_t>(current_context->device)];
  return size_bytes <= gpu.FreeBytes() ? gpu.memory.Allocate(size_bytes) : nullptr;
}
void fake_cuda_free(void* address) {
  for (const auto& gpu : Gpus()) gpu->memory.Free(address);
}

void fake_cuda_set_sticky_error(int result) { sticky_error = result; }

size_t fake_cuda_allocated_bytes() {
  size_t bytes = 0;
  for (const auto& gpu : Gpus()) bytes += gpu->memory.allocated_bytes();
  return bytes;
}

CUresult cuInit(unsigned) { return Gpus().empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int* version) {
  *version = static_cast<int>(Setting("FAKE_CUDA_VERSION", CUDA_VERSION));
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return CUDA_SUCCESS;
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_CONTEXT:
      *name = "CUDA_ERROR_INVALID_CONTEXT";
      return CUDA_SUCCESS;
    case CUDA_ERROR_NO_DEVICE:
      *name = "CUDA_ERROR_NO_DEVICE";
      return CUDA_SUCCESS;
    default:
      *name = "CUDA_ERROR_OF_THE_FAKE";
      return CUDA_SUCCESS;
  }
}

CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "said by the fake";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = static_cast<int>(Gpus().size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int index) {
  if (index < 0 || index >= static_cast<int>(Gpus().size())) return CUDA_ERROR_INVALID_DEVICE;
  *device = index;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, "Fake GPU", static_cast<size_t>(size));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int size, CUdevice device) {
  const int whole = device / static_cast<int>(Setting("FAKE_CUDA_SLICES", 1));
  std::strncpy(id, ("0000:0" + std::to_string(whole) + ":00.0").c_str(), static_cast<size_t>(size));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, 0xab, sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  *bytes = Gpus()[static_cast<size_t>(device)]->memory.size_bytes();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = &Gpus()[static_cast<size_t>(device)]->context;
  return Sticky();
}

CUresult cuDevicePrimaryCtxRelease(CUdevice) { return CUDA_SUCCESS; }

CUresult cuCtxSetCurrent(CUcontext context) {
  current_context = context;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned, int) {
  RETURN_IF_UNBOUND();
  *stream = new CUstream_st{current_context->device, {}};
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  {
    std::lock_guard lock(captures_mutex);
    if (stream->capture != nullptr) stream->capture->Invalidate();
  }
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  RETURN_IF_STICKY();
  RETURN_IF_NOT_OK(CheckThatStreamIsNotCaptured(stream));
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  return stream->work.IsIdle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  RETURN_IF_STICKY();
  std::lock_guard lock(captures_mutex);
  if (event->captured_by != nullptr) {
    Capture& capture = *event->captured_by;
    if (!capture.is_active()) return CUDA_ERROR_CAPTURED_EVENT;
    if (stream->capture == nullptr) stream->capture = event->captured_by;
    if (stream->capture != event->captured_by) {
      stream->capture->Invalidate();
      return Refuse(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (capture.is_invalidated()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    capture.LetFollow(stream, event->captured_after);
    return CUDA_SUCCESS;
  }
  // No launch of the graph could wait for it.
  if (stream->capture != nullptr) {
    return Refuse(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  stream->work.Add(
      [held = event->event, recording = event->event->recorded()] { held->Await(recording); });
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  RETURN_IF_UNBOUND();
  *event = new CUevent_st{current_context->device};
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  RETURN_IF_STICKY();
  if (event->device != stream->device) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard lock(captures_mutex);
  event->captured_by = stream->capture;
  if (stream->capture != nullptr) {
    if (stream->capture->is_invalidated()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->captured_after = stream->capture->TailOf(stream);
    return CUDA_SUCCESS;
  }
  stream->work.Add(
      [held = event->event, recording = event->event->Record()] { held->Happen(recording); });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  RETURN_IF_STICKY();
  RETURN_IF_NOT_OK(CheckThatEventIsNoneOfACapture(event));
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  return event->event->IsDone() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  RETURN_IF_STICKY();
  if (start->device != end->device) return CUDA_ERROR_INVALID_HANDLE;
  RETURN_IF_NOT_OK(CheckThatEventIsNoneOfACapture(start));
  RETURN_IF_NOT_OK(CheckThatEventIsNoneOfACapture(end));
  if (!start->event->IsDone() || !end->event->IsDone()) return CUDA_ERROR_NOT_READY;
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->event->when() - start->event->when()).count();
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  RETURN_IF_UNBOUND();
  Gpu& gpu = *Gpus()[static_cast<size_t>(current_context->device)];
  *total_bytes = gpu.memory.size_bytes();
  *free_bytes = gpu.FreeBytes();
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *address == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  std::free(address);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  RETURN_IF_STICKY();
  *pool = &Gpus()[static_cast<size_t>(properties->location.id)]->pool;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool) { return CUDA_SUCCESS; }
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) { return Sticky(); }

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
  RETURN_IF_STICKY();
  if (attribute != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(pool->mutex);
  *static_cast<cuuint64_t*>(value) = pool->reserved_bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes) {
  RETURN_IF_STICKY();
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  std::lock_guard lock(pool->mutex);
  pool->reserved_bytes =
      std::min(pool->reserved_bytes, std::max<size_t>(pool->live_bytes, keep_bytes));
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                 CUstream stream) {
  RETURN_IF_UNBOUND();
  // CUDA makes it memory of the graph, which is not what anyone here wants.
  RETURN_IF_NOT_OK(CheckThatStreamIsNotCaptured(stream));
  void* const memory = Gpus()[static_cast<size_t>(pool->device)]->AllocateFromPool(bytes);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatStreamIsNotCaptured(stream));
  stream->work.Add([=] {
    for (const auto& gpu : Gpus()) gpu->FreeToPool(reinterpret_cast<void*>(address));
  });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  CUDA_MEMCPY2D copy{};
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = bytes;
  copy.Height = 1;
  return cuMemcpy2DAsync(&copy, stream);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D* given, CUstream stream) {
  RETURN_IF_UNBOUND();
  CUDA_MEMCPY2D copy = *given;
  auto* const to = reinterpret_cast<void*>(copy.dstDevice);
  auto* const from = reinterpret_cast<void*>(copy.srcDevice);
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(View(to));
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(View(from));
  // Whether host memory is pinned is not known here. CUDA reads pinned memory later, so this does,
  // too.
  return Put(stream, [copy] { CopyRows(copy); });
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  CUmod_st loaded;
  RETURN_IF_NOT_OK(LoadModule(image, &loaded));
  *module = new CUmod_st(loaded);
  return CUDA_SUCCESS;
}

// CUDA waits for what runs of it.
CUresult cuModuleUnload(CUmodule module) {
  RETURN_IF_UNBOUND();
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  RETURN_IF_STICKY();
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return FindFunction(*module, name, function);
}

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  RETURN_IF_STICKY();
  static CUlib_st loaded;
  *library = &loaded;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  CUmod_st module;
  return cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel), &module, name);
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads,
                        unsigned, unsigned, unsigned, CUstream stream, void** parameters, void**) {
  RETURN_IF_UNBOUND();
  // Unlike copies, which may go into a stream of another GPU.
  if (stream->device != current_context->device) return CUDA_ERROR_INVALID_HANDLE;
  return Put(stream, LaunchOf(function, blocks, threads, parameters));
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  RETURN_IF_UNBOUND();
  std::lock_guard lock(captures_mutex);
  if (stream->capture != nullptr || own_capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = own_capture = std::make_shared<Capture>(stream, mode);
  if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL) global_capture = own_capture;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph = nullptr;
  RETURN_IF_UNBOUND();
  std::lock_guard lock(captures_mutex);
  if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  const std::shared_ptr<Capture> capture = stream->capture;
  std::shared_ptr<const Graph> captured;
  const CUresult ended = capture->End(
      stream, [](CUstream other) { other->capture = nullptr; }, &captured);
  if (!capture->is_active() && own_capture == capture) own_capture = nullptr;
  if (ended == CUDA_SUCCESS) *graph = new CUgraph_st{std::move(captured)};
  return ended;
}

CUresult cuGraphInstantiate(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatNothingIsCaptured());
  auto made = std::make_shared<Executable>();
  made->graph = graph->graph;
  *executable = new CUgraphExec_st{std::move(made)};
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  RETURN_IF_UNBOUND();
  RETURN_IF_NOT_OK(CheckThatStreamIsNotCaptured(stream));
  ++graph_launches;
  ++executable->executable->launches_under_way;
  stream->work.Add([launched = executable->executable] {
    launched->graph->Run();
    --launched->launches_under_way;
  });
  return CUDA_SUCCESS;
}

// CUDA puts the end of one that is under way off. Who does so has lost sight of what it is doing.
CUresult cuGraphExecDestroy(CUgraphExec executable) {
  const bool is_under_way = executable->executable->launches_under_way > 0;
  delete executable;
  if (!is_under_way) return CUDA_SUCCESS;
  ++misuses;
  std::fputs("fake libcuda: a graph is destroyed while it is executed\n", stderr);
  return CUDA_ERROR_ILLEGAL_STATE;
}

CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return CUDA_SUCCESS;
}

}  // extern "C"
