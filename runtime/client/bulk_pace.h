// How much of a copy by socket may be under way.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "runtime/base/deadline.h"

namespace lockstep::client {

// Commands come first. What is under way of a copy keeps both ends and the wire busy, and a command
// that comes meanwhile waits behind it wherever they meet: on processors, in sockets, on the wire.
// So there is little of it while worker-0 gets commands, and much while it gets none. On a wire
// that takes long, little is as much as is on it at a time: its rate times its delay.
//
// One for each connection. Threads: one at a time.
class BulkPace {
 public:
  using Clock = Deadline::Clock;

  explicit BulkPace(std::function<Clock::time_point()> now = &Clock::now) : now_(std::move(now)) {}

  Clock::time_point Now() const { return now_(); }

  struct Limits {
    size_t request_bytes;    // of one request
    size_t under_way_bytes;  // of all that are not answered
  };
  Limits Current() const;

  // A copy begins: nothing is under way.
  void Begin();
  // A request of so many bytes, which was sent at `sent`, was answered. `commands_came`: worker-0
  // has had commands since its answer before, as it says.
  void NoteAnswer(Clock::time_point sent, size_t size_bytes, bool commands_came);

 private:
  // Of the wire: of an answer, without what its bytes take, and what both ends take at least.
  double DelaySeconds() const;

  std::function<Clock::time_point()> now_;
  Clock::time_point gives_way_until_;
  // Of the copy that is under way.
  Clock::time_point began_;
  size_t answered_bytes_ = 0;
  double bytes_per_second_ = 0;  // of the copy that was fastest so far
  // The shortest time to an answer, and of how many bytes.
  Clock::duration shortest_ = Clock::duration::max();
  size_t shortest_bytes_ = 0;
};

}  // namespace lockstep::client
