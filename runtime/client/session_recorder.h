// What a session records for a timeline.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/trace/event.h"
#include "runtime/trace/ring.h"

namespace lockstep::client {

// Records while its ring is on.
//
// Threads: as trace::Ring; its owner's lock is held while it records.
class SessionRecorder {
 public:
  explicit SessionRecorder(SessionId session) : session_(session) {}

  trace::Ring& ring() { return ring_; }
  bool is_on() const { return ring_.is_on(); }

  // Adds what has taken until now.
  void Record(trace::Event event, std::string_view name, trace::Kind kind,
              Deadline::Clock::time_point began, const Status& status = OkStatus());
  // A batch was sent, which begins with the command of number `first_command`; its commands were
  // collected for `waited` before.
  void RecordBatch(Deadline::Clock::time_point began, Deadline::Clock::duration waited,
                   uint64_t first_command, uint32_t commands, uint64_t bytes);
  void RecordWait(std::string_view name, Deadline::Clock::time_point began,
                  const Status& status = OkStatus()) {
    if (is_on()) Record({}, name, trace::Kind::kWait, began, status);
  }

 private:
  const SessionId session_;
  trace::Ring ring_;
};

}  // namespace lockstep::client
