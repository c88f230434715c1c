// The state of a GPU as its driver's monitoring library (NVML) tells it: what an operator wants to
// know before the GPU fails, and what it has died of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/collective/device.h"

namespace lockstep::cuda {

// Threads: one at a time. A GPU that has fallen off the bus may keep every call waiting: a thread
// that others wait for does not make them.
class Monitor {
 public:
  virtual ~Monitor() = default;
  // "580.65.06"
  virtual std::string DriverVersion() const = 0;
  virtual collective::DeviceHealth Read() = 0;
  // The XIDs (NVIDIA's numbers for what goes wrong with a GPU, see
  // https://docs.nvidia.com/deploy/xid-errors/) that were reported since this was asked last; of
  // this GPU, whichever process caused them.
  virtual std::vector<uint64_t> TakeXids() = 0;
};

// For the GPU at `bus_id` (GpuFacts). kUnavailable: says what is missing.
StatusOr<std::unique_ptr<Monitor>> OpenMonitor(const std::string& bus_id);

}  // namespace lockstep::cuda
