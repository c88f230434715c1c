// What a test tells the fake NVML. Where it runs in another process: FAKE_NVML_XID is one that
// every process gets to hear.
#pragma once

#include <cstdint>

extern "C" {

// Event sets that are registered for them get this XID.
void fake_nvml_report_xid(uint64_t xid);
void fake_nvml_set_temperature(unsigned celsius);
// nvmlClocksEventReasons.
void fake_nvml_set_slowdown(uint64_t reasons);
// Most questions are not answered from now on: the GPU is too old, or a virtual one.
void fake_nvml_support(bool everything);

}  // extern "C"
