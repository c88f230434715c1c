#include "services/worker/report/tracer.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/control/message_codec.h"
#include "schemas/membership.capnp.h"

namespace lockstep::worker {
namespace {

constexpr uint16_t kThreads = 2;
// A client of ours asks for one thing at a time.
constexpr size_t kMostWaiting = 16;

}  // namespace

void Tracer::SetController(const Identity& identity) {
  End();
  identity_ = identity;
}

std::vector<control::Message> Tracer::Take(wire::TraceOrder::Reader order,
                                           const WorkerActivity& activity) {
  std::vector<control::Message> messages;
  switch (order.which()) {
    case wire::TraceOrder::START:
      Start(order.getTrace(), order.getStart());
      messages.push_back(Compare());
      break;
    case wire::TraceOrder::STOP:
      if (order.getTrace() != trace_ || !recording_) break;
      Stop(activity);
      messages.push_back(Compare());
      break;
    case wire::TraceOrder::FETCH: {
      const auto asked = order.getFetch();
      const Fetch fetch{order.getTrace(), order.getRequest(), asked.getThread(), asked.getFrom()};
      if (!comparison_.has_value() || waiting_.size() == kMostWaiting) {
        messages.push_back(Answer(fetch));
      } else {
        waiting_.push_back(fetch);
      }
      break;
    }
    case wire::TraceOrder::END:
      if (order.getTrace() == trace_) End();
      break;
    case wire::TraceOrder::CLOCK: {
      const auto clock = order.getClock();
      if (!comparison_.has_value() || clock.getAsked() != asked_) break;
      comparison_->Add(asked_, clock.getReceived(), clock.getAnswered(), Now());
      if (comparison_->count() < kRoundTrips) {
        messages.push_back(AskForTime());
      } else {
        FinishComparison(messages);
      }
      break;
    }
    default:
      break;
  }
  return messages;
}

std::vector<control::Message> Tracer::Look() {
  std::vector<control::Message> messages;
  if (comparison_.has_value() && comparison_ends_.Expired()) FinishComparison(messages);
  return messages;
}

void Tracer::End() {
  executing_.Clear();
  bulk_.Clear();
  trace_ = 0;
  recording_ = false;
  unfinished_.reset();
  clocks_.clear();
  comparison_.reset();
  waiting_.clear();
}

void Tracer::Start(uint64_t trace, uint32_t events) {
  End();
  trace_ = trace;
  recording_ = true;
  const uint32_t capacity = std::min(events, wire::MOST_TRACE_EVENTS);
  executing_.Start(capacity);
  bulk_.Start(capacity);
}

void Tracer::Stop(const WorkerActivity& activity) {
  recording_ = false;
  executing_.Stop();
  bulk_.Stop();
  trace::Event last;
  last.end = executing_.started();
  if (executing_.size() > 0) last = executing_.at(executing_.size() - 1);
  // Recorded as it failed, and not left yet.
  const bool is_over = last.session == activity.session.value && last.command == activity.command &&
                       last.command != 0;
  trace::Event event;
  event.end = trace::Now();
  event.unfinished = true;
  if (is_over || activity.kind == WorkerActivity::Kind::kNone) {
    event.begin = last.end;
    event.kind = trace::Kind::kWait;
    event.SetName("wait for commands");
  } else {
    // Since when is told in whole milliseconds; and it has not begun before the last one ended.
    const std::chrono::nanoseconds since = activity.since + std::chrono::milliseconds(1);
    event.begin = event.end - since.count();
    if (executing_.size() > 0) event.begin = std::max(event.begin, last.end);
    event.kind = activity.kind == WorkerActivity::Kind::kCollective ? trace::Kind::kCollective
                                                                    : trace::Kind::kCommand;
    event.session = activity.session.value;
    event.command = activity.command;
    // One that has just begun may have no name yet.
    event.SetName(activity.what.empty() ? "command" : activity.what);
  }
  unfinished_ = event;
}

control::Message Tracer::Compare() {
  comparison_.emplace();
  comparison_ends_ = Deadline::After(kLongestComparison);
  return AskForTime();
}

control::Message Tracer::AskForTime() {
  return {control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder m) {
    asked_ = Now();
    m.initTrace().initClock().setAsked(asked_);
  })};
}

void Tracer::FinishComparison(std::vector<control::Message>& messages) {
  if (const auto best = comparison_->best()) clocks_.push_back(*best);
  comparison_.reset();
  for (const Fetch& fetch : std::exchange(waiting_, {})) messages.push_back(Answer(fetch));
}

control::Message Tracer::Answer(const Fetch& fetch) const {
  std::string problem;
  if (fetch.trace != trace_) problem = "its worker has joined after the trace began";
  if (fetch.thread >= kThreads) problem = "it has no thread of that number";
  control::Message message = {
      control::EncodeMessage<wire::LivenessMessage>([&](wire::LivenessMessage::Builder builder) {
        auto answer = builder.initTrace();
        answer.setRank(identity_.rank);
        answer.setController(identity_.controller.value);
        answer.setWatch(identity_.watch);
        answer.setTrace(fetch.trace);
        answer.setRequest(fetch.request);
        answer.setFetched(problem);
      })};
  if (problem.empty()) message.push_back(EncodeEvents(Events(fetch)));
  return message;
}

trace::Events Tracer::Events(const Fetch& fetch) const {
  trace::Events events;
  events.rank = identity_.rank;
  events.host_name = ThisHost().name;
  events.host_id = ThisHost().id;
  events.pid = getpid();
  events.clocks = clocks_;
  events.threads = kThreads;
  events.thread = fetch.thread;
  const bool is_executing = fetch.thread == 0;
  events.thread_name = is_executing ? "executing" : "bulk";
  if (recording_) return events;
  const trace::Ring& ring = is_executing ? executing_ : bulk_;
  events.lost = ring.lost();
  const uint64_t more = is_executing && unfinished_.has_value() ? 1 : 0;
  const uint64_t size = ring.size() + more;
  uint64_t at = fetch.from;
  for (; at < size && events.events.size() < trace::kEventsPerMessage; ++at) {
    events.events.push_back(at < ring.size() ? ring.at(at) : *unfinished_);
    events.events.back().begin += clock_shift_;
    events.events.back().end += clock_shift_;
  }
  if (at < size) events.next = at;
  return events;
}

}  // namespace lockstep::worker
