#include "services/controller/common/tracing.h"

#include <unistd.h>

#include <algorithm>

#include "runtime/base/host_identity.h"
#include "runtime/base/random.h"
#include "schemas/trace.capnp.h"

namespace lockstep::controller {
namespace {

// A worker that has not answered by then will not.
constexpr std::chrono::seconds kLongestAnswer{5};

}  // namespace

Status Tracing::Begin(const control::PeerName& client, uint32_t events, TimePoint now) {
  if (events == 0 || events > wire::MOST_TRACE_EVENTS) {
    return InvalidArgument("a trace keeps 1 to ", wire::MOST_TRACE_EVENTS,
                           " events of a thread, not ", events);
  }
  if (trace_ != 0 && client_ != client) {
    return FailedPrecondition(
        "the cluster records a trace of another client; there is one at a "
        "time, try again when it is over");
  }
  End();
  trace_ = RandomNumber();
  client_ = client;
  heard_ = now;
  ring_.Start(events);
  return OkStatus();
}

void Tracing::End() {
  ring_.Clear();
  trace_ = 0;
  client_.clear();
  std::fill(asked_.begin(), asked_.end(), TimePoint());
}

Status Tracing::Hear(const control::PeerName& client, uint64_t trace, TimePoint now) {
  if (trace == 0 || trace != trace_ || client != client_) {
    return NotFound(
        "there is no such trace any more: its client was silent for longer than its "
        "lease, or the controller was started again");
  }
  heard_ = now;
  return OkStatus();
}

Status Tracing::Ask(Rank rank, TimePoint now) {
  TimePoint& asked = asked_[static_cast<size_t>(rank)];
  if (asked != TimePoint() && now - asked < kLongestAnswer) {
    return ResourceExhausted("rank ", rank, " has yet to answer the last question");
  }
  asked = now;
  return OkStatus();
}

void Tracing::Add(std::string_view name, SessionId session, uint64_t command, StatusCode code) {
  trace::Event event;
  event.begin = event.end = trace::Nanos(clock_.Now());
  event.kind = trace::Kind::kMark;
  event.session = session.value;
  event.command = command;
  event.code = static_cast<uint16_t>(code);
  event.SetName(name);
  ring_.Add(event);
}

void Tracing::AddBatch(SessionId session, uint64_t first_command, uint64_t bytes,
                       TimePoint arrived) {
  trace::Event event;
  event.begin = trace::Nanos(arrived);
  event.end = trace::Nanos(clock_.Now());
  event.kind = trace::Kind::kBatch;
  event.session = session.value;
  event.command = first_command;
  event.bytes = bytes;
  event.SetName(first_command == 0 ? "send the controller's command" : "order and send batch");
  ring_.Add(event);
}

trace::Events Tracing::Events(uint64_t from) const {
  trace::Events events;
  events.host_name = ThisHost().name;
  events.host_id = ThisHost().id;
  events.pid = getpid();
  // All others are compared with this clock.
  events.clocks = {{}, {}};
  events.threads = 1;
  events.thread_name = "router";
  if (is_recording()) return events;
  events.lost = ring_.lost();
  uint64_t at = from;
  for (; at < ring_.size() && events.events.size() < trace::kEventsPerMessage; ++at) {
    events.events.push_back(ring_.at(at));
  }
  if (at < ring_.size()) events.next = at;
  return events;
}

}  // namespace lockstep::controller
