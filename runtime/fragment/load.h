// How a worker has come by a fragment that it was to load.
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/base/ids.h"

namespace lockstep::fragment {

// The numeric values are part of the wire format.
enum class Origin : uint8_t {
  kMemory = 0,    // it was compiled, or found on disk, before
  kDisk = 1,      // another worker, or another time, has compiled it
  kCompiler = 2,  // this worker has
  kModule = 3,    // a function: nothing is compiled
};
inline constexpr int kOriginCount = 4;

struct Load {
  Rank rank = 0;
  Origin origin = Origin::kModule;
  std::chrono::microseconds compiling{0};  // while the compiler ran here
};

}  // namespace lockstep::fragment
