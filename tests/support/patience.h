// How long tests wait for what has to come.
#pragma once

#include <chrono>

namespace lockstep::support {

// Enough on a busy machine under a sanitizer; only a test that fails waits for all of it.
inline constexpr std::chrono::seconds kLong{30};

}  // namespace lockstep::support
