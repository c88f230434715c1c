// libnvidia-ml, found while the program runs.
#pragma once

#include <nvml.h>

#include "runtime/base/status.h"

namespace lockstep::cuda::nvml {

// The functions that are used. Some names are macros for what the header's version calls them.
#define LOCKSTEP_NVML_FUNCTIONS(X)          \
  X(nvmlInit)                               \
  X(nvmlErrorString)                        \
  X(nvmlSystemGetDriverVersion)             \
  X(nvmlDeviceGetHandleByPciBusId)          \
  X(nvmlDeviceGetTemperatureV)              \
  X(nvmlDeviceGetPowerUsage)                \
  X(nvmlDeviceGetClockInfo)                 \
  X(nvmlDeviceGetCurrentClocksEventReasons) \
  X(nvmlDeviceGetTotalEccErrors)            \
  X(nvmlEventSetCreate)                     \
  X(nvmlEventSetFree)                       \
  X(nvmlEventSetWait)                       \
  X(nvmlDeviceRegisterEvents)

struct Library {
#define LOCKSTEP_NVML_MEMBER(name) decltype(&::name) name = nullptr;
  LOCKSTEP_NVML_FUNCTIONS(LOCKSTEP_NVML_MEMBER)
#undef LOCKSTEP_NVML_MEMBER
};

// Loads libnvidia-ml.so.1 and initialises it. It stays loaded. kUnavailable says what is missing.
// Threads: safe.
StatusOr<const Library*> LoadLibrary();

// `result` of a call: NVML's own words, with `call` in front; kUnavailable.
Status ToStatus(const Library& library, nvmlReturn_t result, const char* call);

}  // namespace lockstep::cuda::nvml
