#include "tests/fakes/cuda/fake_cuda.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "tests/fakes/cuda/driver.h"
#include "tests/fakes/cuda/kernels.h"

using namespace lockstep::fake_cuda;

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

int fake_cuda_current_device() { return current_context == nullptr ? -1 : current_context->device; }
int fake_cuda_device_of_stream(const void* stream) {
  return static_cast<const CUstream_st*>(stream)->device;
}

void fake_cuda_set_sticky_error(int result) { sticky_error = result; }

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

}  // extern "C"
