// The versions that processes compare when they meet.
#pragma once

#include <cstdint>

namespace lockstep {

// Lockstep's version, for people: "0.1.0". Packages and images read it from this line.
inline constexpr char kBuildVersion[] = "0.1.0";

// The version of the protocol in schemas/, and the oldest that is still spoken.
inline constexpr uint32_t kProtocolVersion = 3;
inline constexpr uint32_t kOldestProtocolVersion = 2;
// The same of workers, which are of the controller's release: what all of a world are told alike
// comes in frames of its own since then.
inline constexpr uint32_t kOldestWorkerProtocolVersion = 3;

}  // namespace lockstep
