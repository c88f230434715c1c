// The state of a GPU as its driver's monitoring library (NVML) tells it: what an operator wants to
// know before the GPU fails, and what it has died of.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::cuda {

// What is not set, this GPU does not tell.
struct GpuHealth {
  std::optional<double> temperature_celsius;
  std::optional<double> power_watts;
  std::optional<double> sm_clock_hertz;
  std::optional<double> memory_clock_hertz;
  // Since the driver was loaded.
  std::optional<uint64_t> corrected_ecc_errors;
  std::optional<uint64_t> uncorrected_ecc_errors;
  // It was slowed down when it was asked: by its own protection, or by the board's.
  std::optional<bool> is_slowed_by_heat;
  std::optional<bool> is_slowed_by_power;
};

// Threads: one at a time. A GPU that has fallen off the bus may keep every call waiting: a thread
// that others wait for does not make them.
class Monitor {
 public:
  virtual ~Monitor() = default;
  // "580.65.06"
  virtual std::string DriverVersion() const = 0;
  virtual GpuHealth Read() = 0;
  // The XIDs (NVIDIA's numbers for what goes wrong with a GPU, see
  // https://docs.nvidia.com/deploy/xid-errors/) that were reported since this was asked last; of
  // this GPU, whichever process caused them.
  virtual std::vector<uint64_t> TakeXids() = 0;
};

// For the GPU at `bus_id` (GpuFacts). kUnavailable: says what is missing.
StatusOr<std::unique_ptr<Monitor>> OpenMonitor(const std::string& bus_id);

}  // namespace lockstep::cuda
