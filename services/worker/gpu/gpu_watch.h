// Looks at a worker's GPU once a second: for metrics, and to say in the log what it reports.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "runtime/cuda/device_allocator.h"
#include "runtime/cuda/monitor.h"
#include "runtime/cuda/stream_pair.h"
#include "runtime/tensor/storage.h"

namespace lockstep::worker {

// What was seen last.
struct GpuReport {
  tensor::AllocatorStats memory;
  size_t registered_bytes = 0;
  size_t registered_live_bytes = 0;
  cuda::StreamWaits waits;
  bool is_monitored = false;   // there is NVML; what follows is not known without
  std::string driver_version;  // "580.65.06"
  cuda::GpuHealth health;
  std::map<uint64_t, uint64_t> xids;  // how often each was reported
};

// On a thread of its own, for a GPU that has fallen off the bus may never answer: nobody waits for
// it.
//
// Threads: Last() is safe from any.
class GpuWatch {
 public:
  GpuWatch(std::shared_ptr<cuda::StreamPair> streams,
           std::shared_ptr<cuda::DeviceAllocator> allocator);
  // Leaves a thread behind that the GPU keeps waiting.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  GpuReport Last() const;

  // A thread of this process was left behind.
  static bool AnyLeftBehind();

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace lockstep::worker
