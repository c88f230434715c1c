#include "tests/fakes/cuda/driver.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace lockstep::fake_cuda {

size_t Setting(const char* name, size_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

Gpu::Gpu(int number)
    : memory(Setting("FAKE_CUDA_MEMORY_MIB", 256) << 20), context{number}, pool{number} {}

size_t Gpu::FreeBytes() {
  std::lock_guard lock(pool.mutex);
  return memory.size_bytes() - memory.allocated_bytes() - (pool.reserved_bytes - pool.live_bytes);
}

void* Gpu::AllocateFromPool(size_t size_bytes) {
  std::lock_guard lock(pool.mutex);
  void* const address = memory.Allocate(size_bytes);
  if (address == nullptr) return nullptr;
  pool.live[address] = size_bytes;
  pool.live_bytes += size_bytes;
  pool.reserved_bytes = std::max(pool.reserved_bytes, pool.live_bytes);
  return address;
}

void Gpu::FreeToPool(void* address) {
  std::lock_guard lock(pool.mutex);
  const auto found = pool.live.find(address);
  if (found == pool.live.end()) return;
  pool.live_bytes -= found->second;
  pool.live.erase(found);
  memory.Free(address);
}

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
std::mutex captures_mutex;
thread_local std::shared_ptr<Capture> own_capture;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
std::weak_ptr<Capture> global_capture;
std::atomic<int> misuses{0};
std::atomic<int> graph_launches{0};
std::atomic<int> sticky_error{CUDA_SUCCESS};

CUresult Put(CUstream stream, std::function<void()> work) {
  std::lock_guard lock(captures_mutex);
  if (stream->capture != nullptr) return stream->capture->Add(stream, std::move(work));
  stream->work.Add(std::move(work));
  return CUDA_SUCCESS;
}

CUresult Refuse(Capture& capture, CUresult why) {
  capture.Invalidate();
  return why;
}

CUresult CheckThatNothingIsCaptured() {
  if (capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  std::lock_guard lock(captures_mutex);
  const auto global =
      capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL ? global_capture.lock() : nullptr;
  if (global != nullptr && global->is_active()) {
    return Refuse(*global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  if (own_capture == nullptr || own_capture->mode() == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_SUCCESS;
  }
  return Refuse(*own_capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult CheckThatEventIsNoneOfACapture(CUevent event) {
  std::lock_guard lock(captures_mutex);
  if (event->captured_by == nullptr) return CUDA_SUCCESS;
  return Refuse(*event->captured_by, CUDA_ERROR_CAPTURED_EVENT);
}

CUresult CheckThatStreamIsNotCaptured(CUstream stream) {
  std::lock_guard lock(captures_mutex);
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  return Refuse(*stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

}  // namespace lockstep::fake_cuda
