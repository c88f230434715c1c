#include "runtime/cuda/monitor.h"

#include <utility>

#include "runtime/cuda/nvml/library.h"

namespace lockstep::cuda {
namespace {

using nvml::Library;

// At most so many in one answer: a GPU that reports without end must not hold the caller up.
constexpr size_t kMostXids = 1000;

class NvmlMonitor final : public Monitor {
 public:
  NvmlMonitor(const Library& library, nvmlDevice_t device, std::string driver_version)
      : library_(library), device_(device), driver_version_(std::move(driver_version)) {
    if (library_.nvmlEventSetCreate(&events_) != NVML_SUCCESS) events_ = nullptr;
    if (events_ != nullptr) {
      (void)library_.nvmlDeviceRegisterEvents(device_, nvmlEventTypeXidCriticalError, events_);
    }
  }
  ~NvmlMonitor() override {
    if (events_ != nullptr) (void)library_.nvmlEventSetFree(events_);
  }

  std::string DriverVersion() const override { return driver_version_; }

  collective::DeviceHealth Read() override {
    collective::DeviceHealth health;
    nvmlTemperature_t temperature{};
    temperature.version = nvmlTemperature_v1;
    temperature.sensorType = NVML_TEMPERATURE_GPU;
    if (library_.nvmlDeviceGetTemperatureV(device_, &temperature) == NVML_SUCCESS) {
      health.temperature_celsius = temperature.temperature;
    }
    unsigned milliwatts = 0;
    if (library_.nvmlDeviceGetPowerUsage(device_, &milliwatts) == NVML_SUCCESS) {
      health.power_watts = milliwatts / 1e3;
    }
    health.sm_clock_hertz = Clock(NVML_CLOCK_SM);
    health.memory_clock_hertz = Clock(NVML_CLOCK_MEM);
    health.corrected_ecc_errors = EccErrors(NVML_MEMORY_ERROR_TYPE_CORRECTED);
    health.uncorrected_ecc_errors = EccErrors(NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
    unsigned long long reasons = 0;
    if (library_.nvmlDeviceGetCurrentClocksEventReasons(device_, &reasons) == NVML_SUCCESS) {
      constexpr unsigned long long kHeat =
          nvmlClocksEventReasonSwThermalSlowdown | nvmlClocksThrottleReasonHwThermalSlowdown;
      constexpr unsigned long long kPower =
          nvmlClocksEventReasonSwPowerCap | nvmlClocksThrottleReasonHwPowerBrakeSlowdown;
      health.is_slowed_by_heat = (reasons & kHeat) != 0;
      health.is_slowed_by_power = (reasons & kPower) != 0;
    }
    return health;
  }

  std::vector<uint64_t> TakeXids() override {
    std::vector<uint64_t> xids;
    if (events_ == nullptr) return xids;
    nvmlEventData_t event{};
    while (xids.size() < kMostXids &&
           library_.nvmlEventSetWait(events_, &event, /*timeoutms=*/0) == NVML_SUCCESS) {
      if (event.eventType == nvmlEventTypeXidCriticalError) xids.push_back(event.eventData);
    }
    return xids;
  }

 private:
  std::optional<double> Clock(nvmlClockType_t type) const {
    unsigned megahertz = 0;
    if (library_.nvmlDeviceGetClockInfo(device_, type, &megahertz) != NVML_SUCCESS) return {};
    return megahertz * 1e6;
  }
  std::optional<uint64_t> EccErrors(nvmlMemoryErrorType_t type) const {
    unsigned long long count = 0;
    if (library_.nvmlDeviceGetTotalEccErrors(device_, type, NVML_VOLATILE_ECC, &count) !=
        NVML_SUCCESS) {
      return {};
    }
    return count;
  }

  const Library& library_;
  const nvmlDevice_t device_;
  const std::string driver_version_;
  nvmlEventSet_t events_ = nullptr;  // null: this GPU reports nothing
};

}  // namespace

StatusOr<std::unique_ptr<Monitor>> OpenMonitor(const std::string& bus_id) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Library* const library, nvml::LoadLibrary());
  nvmlDevice_t device = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(
      nvml::ToStatus(*library, library->nvmlDeviceGetHandleByPciBusId(bus_id.c_str(), &device),
                     "nvmlDeviceGetHandleByPciBusId"));
  char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = {};
  LOCKSTEP_RETURN_IF_ERROR(
      nvml::ToStatus(*library, library->nvmlSystemGetDriverVersion(version, sizeof version),
                     "nvmlSystemGetDriverVersion"));
  return std::make_unique<NvmlMonitor>(*library, device, version);
}

}  // namespace lockstep::cuda
