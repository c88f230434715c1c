// What a batch's envelope says of it (schemas/control.capnp).
#pragma once

#include <chrono>
#include <cstdint>

#include "runtime/base/ids.h"

namespace lockstep::worker {

// How long a batch has been on its way. Durations, because the clocks of hosts differ.
struct BatchTimes {
  std::chrono::nanoseconds in_client{0};      // its first command, until it was sent
  std::chrono::nanoseconds in_controller{0};  // from its arrival there until it was sent on
  std::chrono::nanoseconds in_transit{-1};    // from there to here; negative: not known
};

struct BatchContext {
  SessionId session;
  Generation generation;
  uint64_t first_command = 0;
  RequestId request;
  BatchTimes times = {};
  std::chrono::nanoseconds sent{0};                  // by the controller's clock
  std::chrono::steady_clock::time_point taken = {};  // from the socket
};

}  // namespace lockstep::worker
