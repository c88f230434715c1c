// Recorded events as they cross the wire (schemas/trace.capnp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/trace/clock.h"
#include "runtime/trace/event.h"

namespace lockstep::trace {

// How many events travel together: about 250 KiB, which hold nothing up.
inline constexpr size_t kEventsPerMessage = 4096;

// Some events of one thread, and whose they are.
struct Events {
  Rank rank = -1;  // -1: the controller
  std::string host_name;
  std::string host_id;
  int pid = 0;
  std::vector<ClockSample> clocks;
  uint16_t threads = 0;  // of this process that record
  uint16_t thread = 0;
  std::string thread_name;
  uint64_t lost = 0;  // older ones that had to make room
  uint64_t next = 0;  // where the rest begins; 0: there is none
  std::vector<Event> events;
};

control::Frame EncodeEvents(const Events& events);
// kInvalidArgument for what is no such message.
StatusOr<Events> DecodeEvents(const control::Frame& frame);

}  // namespace lockstep::trace
