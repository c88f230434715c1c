#include "runtime/control/shm/ring_output.h"

namespace lockstep::control {

bool RingOutput::Publish(RecordKind kind, uint64_t tag, const Message& message) {
  const bool is_written = waiting_.empty() && writer_.Write(kind, tag, message);
  if (is_written) [[likely]]
    return true;
  waiting_.push_back({kind, tag, message});
  return PublishWaiting();
}

bool RingOutput::PublishWaiting() {
  if (waiting_.empty()) return false;
  bool has_written = false;
  while (!waiting_.empty() && writer_.has_readers()) {
    const Waiting& next = waiting_.front();
    if (!writer_.Write(next.kind, next.tag, next.message)) {
      // A reader that makes room after this wakes us; one that has made it before is seen now.
      writer_.AwaitRoom();
      if (!writer_.Write(next.kind, next.tag, next.message)) break;
    }
    waiting_.pop_front();
    has_written = true;
  }
  // Nobody is there to read the rest.
  if (!writer_.has_readers()) waiting_.clear();
  if (waiting_.empty()) writer_.StopAwaitingRoom();
  return has_written;
}

}  // namespace lockstep::control
