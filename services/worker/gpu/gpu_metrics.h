// What a worker tells a monitoring system of its GPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "runtime/collective/device.h"
#include "services/metrics/families.h"
#include "services/worker/gpu/gpu_watch.h"

namespace lockstep::worker {

// Threads: safe.
struct GpuMetrics {
  collective::DeviceFacts facts;
  size_t capacity_bytes = 0;  // what tensors may have
  std::shared_ptr<const GpuWatch> watch;

  // `waited`: by the executing thread, for the GPU.
  void Tell(std::chrono::nanoseconds waited, metrics::Families& families) const;
};

}  // namespace lockstep::worker
