// How long tests wait for what has to come.
#pragma once

#include <chrono>
#include <thread>

namespace lockstep::support {

// Enough on a busy machine under a sanitizer; only a test that fails waits for all of it.
inline constexpr std::chrono::seconds kLong{30};

// Between two looks at what another process has to do: who yields, and looks again at once, takes
// the processor that it needs.
inline void LetOthersWork() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace lockstep::support
