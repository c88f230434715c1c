// Who this process is, as it tells its peers.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::control {

// The version of the protocol in schemas/, and the oldest that is still spoken.
inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr uint32_t kOldestProtocolVersion = 1;

// Lockstep's version, for people: "0.1.0".
inline constexpr char kBuildVersion[] = "0.1.0";

struct HostIdentity {
  std::string name;  // for people
  // Equal for two processes that see the same process ids: the kernel's boot id and the PID
  // namespace.
  std::string id;
  // Equal for all processes of one kernel, containers' too: they share its GPUs.
  std::string machine;
};
const HostIdentity& ThisHost();

// A short name for error messages and logs: "host:pid".
std::string ProcessLabel(const std::string& host, int pid);

// An unpredictable number that is not 0.
uint64_t RandomNumber();

// `count` unpredictable bytes, as lower-case hexadecimal digits.
std::string RandomHex(int count);

}  // namespace lockstep::control
