// How much of a copy by socket may be under way.
#pragma once

#include <cstddef>

#include "runtime/base/deadline.h"

namespace lockstep::client {

// Commands come first. What is under way of a copy keeps both ends and the wire busy, and a command
// that comes meanwhile waits behind it wherever they meet: on processors, in sockets, on the wire.
// So there is little of it while worker-0 gets commands, and much while it gets none.
//
// Threads: one at a time.
class BulkPace {
 public:
  using Clock = Deadline::Clock;

  struct Limits {
    size_t request_bytes;    // of one request
    size_t under_way_bytes;  // of all that are not answered
  };
  Limits At(Clock::time_point now) const;

  // A request was answered `took` after it was sent. `commands_came`: worker-0 has had commands
  // since its answer before, as it says.
  void NoteAnswer(Clock::time_point now, Clock::duration took, bool commands_came);

 private:
  Clock::time_point gives_way_until_;
  // The shortest time to an answer: that of the wire, about, on which so much may be at least.
  Clock::duration shortest_ = Clock::duration::max();
};

}  // namespace lockstep::client
