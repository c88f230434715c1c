// What a session records for a timeline.
#include <atomic>

#include "runtime/client/session_core.h"

namespace lockstep::client {
namespace {

// Tells the threads of this process apart.
uint16_t ThisLane() {
  static std::atomic<uint16_t> last{0};
  thread_local const uint16_t lane = ++last;
  return lane;
}

}  // namespace

void SessionCore::Record(trace::Event event, std::string_view name, trace::Kind kind,
                         Deadline::Clock::time_point began, const Status& status) {
  event.begin = trace::Nanos(began);
  event.end = trace::Now();
  event.kind = kind;
  event.session = facts().id.value;
  event.code = static_cast<uint16_t>(status.code());
  event.lane = ThisLane();
  event.SetName(name);
  ring_.Add(event);
}

void SessionCore::RecordBatch(Deadline::Clock::time_point began, Deadline::Clock::duration waited,
                              uint32_t commands, uint64_t bytes) {
  trace::Event event;
  event.commands = commands;
  event.bytes = bytes;
  if (waited.count() > 0) {
    // Whichever thread sends: it may have waited for something else meanwhile.
    trace::Event collecting = event;
    collecting.begin = trace::Nanos(began - waited);
    collecting.end = trace::Nanos(began);
    collecting.kind = trace::Kind::kBatch;
    collecting.session = facts().id.value;
    collecting.SetName("collect commands");
    ring_.Add(collecting);
  }
  event.command = first_command_;
  Record(event, "send batch", trace::Kind::kBatch, began);
}

void SessionCore::NoteCopyBySocket(uint64_t bytes, Deadline::Clock::time_point began,
                                   const Status& status) {
  std::lock_guard lock(mutex_);
  if (!ring_.is_on()) return;
  trace::Event event;
  event.bytes = bytes;
  Record(event, "copy by socket", trace::Kind::kCopy, began, status);
}

}  // namespace lockstep::client
