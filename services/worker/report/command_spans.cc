#include "services/worker/report/command_spans.h"

#include <algorithm>

namespace lockstep::worker {

void CommandSpans::EndWait(Deadline::Clock::time_point taken) {
  trace::Event wait;
  // What it did before the recording began is not known.
  wait.begin = std::max(free_since_, ring_.started());
  wait.end = free_since_ = trace::Nanos(taken);
  if (wait.end <= wait.begin) return;
  wait.kind = trace::Kind::kWait;
  wait.SetName("wait for commands");
  ring_.Add(wait);
}

void CommandSpans::Begin(SessionId session, uint64_t command, std::string_view name) {
  event_ = trace::Event();
  event_.session = session.value;
  event_.command = command;
  event_.SetName(name);
  // Its batch may have been taken before the recording began.
  event_.begin = free_since_ >= ring_.started() ? free_since_ : trace::Now();
  is_open_ = true;
}

void CommandSpans::End() {
  event_.end = free_since_ = trace::Now();
  ring_.Add(event_);
  is_open_ = false;
}

void CommandSpans::AddStep(const Step& step) {
  if (!is_open_) return;
  trace::Event event;
  event.session = event_.session;
  event.command = event_.command;
  event.step = step.number + 1;
  event.kind = step.kind;
  event.lane = step.lane;
  event.begin = step.began;
  event.end = step.ended;
  event.SetName(step.name);
  ring_.Add(event);
}

void CommandSpans::Fail(SessionId session, uint64_t command, StatusCode code) {
  if (!is_open_ || event_.session != session.value || event_.command != command) return;
  event_.code = static_cast<uint16_t>(code);
  End();
}

void CommandSpans::Describe(const CollectiveFacts& facts) {
  if (!is_open_) return;
  // Without a part in it, there was no rank to wait for.
  if (facts.backend.empty()) event_.kind = trace::Kind::kCommand;
  event_.SetBackend(facts.backend);
  event_.ranks = static_cast<uint16_t>(facts.ranks);
  event_.first = facts.first;
  event_.bytes = facts.bytes;
}

}  // namespace lockstep::worker
