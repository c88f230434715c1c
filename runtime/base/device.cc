#include "runtime/base/device.h"

#include <charconv>

namespace lockstep {

std::string ToString(Device device) {
  return (device.type == DeviceType::kCpu ? "cpu:" : "cuda:") + std::to_string(device.index);
}

StatusOr<Device> ParseDevice(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  Device device;
  bool valid = true;
  if (name == "cpu") {
    device.type = DeviceType::kCpu;
  } else if (name == "cuda") {
    device.type = DeviceType::kCuda;
  } else {
    valid = false;
  }
  if (valid && colon != std::string_view::npos) {
    const std::string_view number = text.substr(colon + 1);
    const char* end = number.data() + number.size();
    const auto [stop, error] = std::from_chars(number.data(), end, device.index);
    valid = error == std::errc() && stop == end && device.index >= 0;
  }
  if (!valid) {
    return InvalidArgument("\"", text, "\" is no device; expected \"cpu\" or \"cuda:<index>\"");
  }
  return device;
}

}  // namespace lockstep
