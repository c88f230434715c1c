#include "tests/fakes/cuda/fake_cuda.h"

#include <cuda.h>
// As drivers before 12.8 have it, which later headers call _v2.
#undef cuEventElapsedTime
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/kernels/bodies.h"
#include "tests/fakes/cuda/device.h"
#include "tests/fakes/cuda/stream.h"

// What CUDA only declares.
struct CUstream_st {
  const int device;
  lockstep::fake_cuda::Stream work;
};
struct CUevent_st {
  const int device;
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
struct CUmod_st {};
// A kernel, as the functions that look for one call it.
struct CUfunc_st {};
struct CUkern_st {};
struct CUlib_st {};

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

std::atomic<int> sticky_error{CUDA_SUCCESS};

CUresult Sticky() { return static_cast<CUresult>(sticky_error.load()); }

template <typename T>
T* View(T* address) {
  return static_cast<T*>(fake_cuda_host_view(address));
}

template <typename Body>
constexpr FakeKernel KernelOf() {
  return {sizeof(Body), [](const void* body) { static_cast<const Body*>(body)->Run(0, 1); }};
}

// Those of runtime/cuda are known, others are looked for in the libraries of $FAKE_CUDA_KERNELS.
const FakeKernel* FindKernel(const std::string& name) {
  static const std::map<std::string, FakeKernel> own = {
      {cuda::Fill::kName, KernelOf<cuda::Fill>()},
      {cuda::Arange::kName, KernelOf<cuda::Arange>()},
      {cuda::Cast::kName, KernelOf<cuda::Cast>()},
  };
  const auto found = own.find(name);
  if (found != own.end()) return &found->second;
  const char* const libraries = std::getenv("FAKE_CUDA_KERNELS");
  std::istringstream files(libraries == nullptr ? "" : libraries);
  for (std::string file; std::getline(files, file, ':');) {
    void* const library = dlopen(file.c_str(), RTLD_NOW);
    if (library == nullptr) continue;
    const void* const kernel = dlsym(library, ("fake_kernel_" + name).c_str());
    if (kernel != nullptr) return static_cast<const FakeKernel*>(kernel);
  }
  return nullptr;
}

// A kernel's parameters, with device addresses as the fake reaches them. Whatever looks like one is
// one: bodies are made of words, and the memory lies where no number comes near, nor an int and
// what is in the padding behind it.
std::vector<uint64_t> Translated(const void* parameters, size_t size_bytes) {
  std::vector<uint64_t> words(size_bytes / 8 + 1);
  std::memcpy(words.data(), parameters, size_bytes);
  for (uint64_t& word : words) {
    word = reinterpret_cast<uint64_t>(View(reinterpret_cast<void*>(word)));
  }
  return words;
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

#define RETURN_IF_STICKY() \
  if (Sticky() != CUDA_SUCCESS) return Sticky()
// What CUDA says to a thread for which no GPU is current.
#define RETURN_IF_UNBOUND() \
  RETURN_IF_STICKY();       \
  if (current_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT

extern "C" {

void fake_cuda_enqueue(void* stream, void (*work)(void*), void* argument) {
  static_cast<CUstream>(stream)->work.Add([=] { work(argument); });
}

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
  if (current_context == nullptr) return nullptr;
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
  delete stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
  RETURN_IF_STICKY();
  return stream->work.IsIdle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  RETURN_IF_STICKY();
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
  stream->work.Add(
      [held = event->event, recording = event->event->Record()] { held->Happen(recording); });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
  RETURN_IF_STICKY();
  return event->event->IsDone() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  RETURN_IF_STICKY();
  if (start->device != end->device) return CUDA_ERROR_INVALID_HANDLE;
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
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return *address == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
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
  std::lock_guard lock(pool->mutex);
  pool->reserved_bytes =
      std::min(pool->reserved_bytes, std::max<size_t>(pool->live_bytes, keep_bytes));
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream) {
  RETURN_IF_UNBOUND();
  void* const memory = Gpus()[static_cast<size_t>(pool->device)]->AllocateFromPool(bytes);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return memory == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  RETURN_IF_UNBOUND();
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
  stream->work.Add([copy] { CopyRows(copy); });
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void*) {
  RETURN_IF_UNBOUND();
  static CUmod_st loaded;
  *module = &loaded;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  RETURN_IF_STICKY();
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const FakeKernel* const kernel = FindKernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = reinterpret_cast<CUfunction>(const_cast<FakeKernel*>(kernel));
  return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  RETURN_IF_STICKY();
  static CUlib_st loaded;
  *library = &loaded;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel),
                             reinterpret_cast<CUmodule>(library), name);
}

CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, unsigned, CUstream stream, void** parameters, void**) {
  RETURN_IF_UNBOUND();
  // Unlike copies, which may go into a stream of another GPU.
  if (stream->device != current_context->device) return CUDA_ERROR_INVALID_HANDLE;
  const auto* const kernel = reinterpret_cast<const FakeKernel*>(function);
  stream->work.Add([kernel, words = Translated(parameters[0], kernel->parameter_bytes)] {
    kernel->run(words.data());
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
