// Where a tensor's memory is.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace lockstep {

// The numeric values are DLPack's DLDeviceType and part of the wire format.
enum class DeviceType : uint8_t { kCpu = 1, kCuda = 2 };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int32_t index = 0;

  bool operator==(const Device&) const = default;
};

// "cpu:0", "cuda:3"
std::string ToString(Device device);

// Reads "cpu", "cuda", "cuda:3".
StatusOr<Device> ParseDevice(std::string_view text);

inline std::ostream& operator<<(std::ostream& out, Device device) {
  return out << ToString(device);
}

}  // namespace lockstep
