#include "tests/fakes/nvml/fake_nvml.h"

#include <nvml.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

struct nvmlDevice_st {
  int unused;
};
struct nvmlEventSet_st {
  std::deque<uint64_t> xids;
};

namespace {

std::mutex mutex;  // guards what follows
nvmlDevice_st the_device;
std::vector<nvmlEventSet_st*> listeners;
unsigned temperature = 41;
uint64_t slowdown = 0;
bool supports_everything = true;

// `value`, if this GPU tells that.
template <typename T>
nvmlReturn_t Tell(T value, T* out) {
  if (!supports_everything) return NVML_ERROR_NOT_SUPPORTED;
  *out = value;
  return NVML_SUCCESS;
}

}  // namespace

extern "C" {

void fake_nvml_report_xid(uint64_t xid) {
  std::lock_guard lock(mutex);
  for (nvmlEventSet_st* set : listeners) set->xids.push_back(xid);
}
void fake_nvml_set_temperature(unsigned celsius) {
  std::lock_guard lock(mutex);
  temperature = celsius;
}
void fake_nvml_set_slowdown(uint64_t reasons) {
  std::lock_guard lock(mutex);
  slowdown = reasons;
}
void fake_nvml_support(bool everything) {
  std::lock_guard lock(mutex);
  supports_everything = everything;
}

nvmlReturn_t nvmlInit_v2() { return NVML_SUCCESS; }

const char* nvmlErrorString(nvmlReturn_t result) {
  return result == NVML_ERROR_NOT_FOUND ? "Not Found" : "Not Supported";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::strncpy(version, "580.65.06", length);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* device) {
  // As the fake GPUs are called.
  if (std::strncmp(bus_id, "0000:", 5) != 0) return NVML_ERROR_NOT_FOUND;
  *device = &the_device;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t, nvmlTemperature_t* told) {
  std::lock_guard lock(mutex);
  if (told->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  told->temperature = static_cast<int>(temperature);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned* milliwatts) {
  std::lock_guard lock(mutex);
  return Tell(412'500u, milliwatts);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t, nvmlClockType_t type, unsigned* megahertz) {
  std::lock_guard lock(mutex);
  return Tell(type == NVML_CLOCK_SM ? 1980u : 3201u, megahertz);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t, unsigned long long* reasons) {
  std::lock_guard lock(mutex);
  return Tell(static_cast<unsigned long long>(slowdown), reasons);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t, nvmlMemoryErrorType_t type,
                                         nvmlEccCounterType_t, unsigned long long* count) {
  std::lock_guard lock(mutex);
  return Tell(type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? 7ULL : 0ULL, count);
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  *set = new nvmlEventSet_st;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  std::lock_guard lock(mutex);
  std::erase(listeners, set);
  delete set;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t, unsigned long long types, nvmlEventSet_t set) {
  std::lock_guard lock(mutex);
  if (types != nvmlEventTypeXidCriticalError) return NVML_ERROR_INVALID_ARGUMENT;
  listeners.push_back(set);
  const char* const xid = std::getenv("FAKE_NVML_XID");
  if (xid != nullptr) set->xids.push_back(std::strtoul(xid, nullptr, 10));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned) {
  std::lock_guard lock(mutex);
  if (set->xids.empty()) return NVML_ERROR_TIMEOUT;
  *data = {};
  data->eventType = nvmlEventTypeXidCriticalError;
  data->eventData = set->xids.front();
  set->xids.pop_front();
  return NVML_SUCCESS;
}

}  // extern "C"
