#include "runtime/client/session_recorder.h"

#include <atomic>

#include "runtime/trace/clock.h"

namespace lockstep::client {
namespace {

// Tells the threads of this process apart.
uint16_t ThisLane() {
  static std::atomic<uint16_t> last{0};
  thread_local const uint16_t lane = ++last;
  return lane;
}

}  // namespace

void SessionRecorder::Record(trace::Event event, std::string_view name, trace::Kind kind,
                             Deadline::Clock::time_point began, const Status& status) {
  event.begin = trace::Nanos(began);
  event.end = trace::Now();
  event.kind = kind;
  event.session = session_.value;
  event.code = static_cast<uint16_t>(status.code());
  event.lane = ThisLane();
  event.SetName(name);
  ring_.Add(event);
}

void SessionRecorder::RecordBatch(Deadline::Clock::time_point began,
                                  Deadline::Clock::duration waited, uint64_t first_command,
                                  uint32_t commands, uint64_t bytes) {
  trace::Event event;
  event.commands = commands;
  event.bytes = bytes;
  if (waited.count() > 0) {
    // The thread that sends may have waited for something else meanwhile.
    trace::Event collecting = event;
    collecting.begin = trace::Nanos(began - waited);
    collecting.end = trace::Nanos(began);
    collecting.kind = trace::Kind::kBatch;
    collecting.session = session_.value;
    collecting.SetName("collect commands");
    ring_.Add(collecting);
  }
  event.command = first_command;
  Record(event, "send batch", trace::Kind::kBatch, began);
}

}  // namespace lockstep::client
