#include "runtime/control/shm/ring_output.h"

#include <algorithm>

namespace lockstep::control {

bool RingOutput::Publish(RecordKind kind, uint64_t tag, const Message& message) {
  const bool is_written = waiting_.empty() && writer_.Write(kind, tag, message);
  if (is_written) [[likely]]
    return true;
  waiting_.push_back({kind, tag, message});
  return PublishWaiting();
}

uint64_t RingOutput::RoomToAwait() const {
  const uint64_t most = BroadcastWriter::LargestOf(memory().ring().capacity());
  uint64_t words = 0;
  for (auto next = waiting_.begin(); next != waiting_.end() && words < most; ++next) {
    words += RecordWords(next->message);
  }
  return std::min(words, most);
}

bool RingOutput::PublishWaiting() {
  if (waiting_.empty()) return false;
  bool has_written = false;
  while (!waiting_.empty() && writer_.has_readers()) {
    const Waiting& next = waiting_.front();
    if (!writer_.Write(next.kind, next.tag, next.message)) {
      // A reader that makes room after this wakes us; one that has made it before is seen now.
      writer_.AwaitRoom(RoomToAwait());
      if (!writer_.Write(next.kind, next.tag, next.message)) break;
    }
    waiting_.pop_front();
    has_written = true;
  }
  // Nobody is there to read the rest.
  if (!writer_.has_readers()) waiting_.clear();
  if (waiting_.empty()) writer_.AwaitRoom(0);
  return has_written;
}

}  // namespace lockstep::control
