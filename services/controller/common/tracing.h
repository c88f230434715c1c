// The timeline that a client has the cluster record, if there is one, and the controller's own part
// in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/trace/events_codec.h"
#include "runtime/trace/ring.h"
#include "services/controller/common/clock.h"

namespace lockstep::controller {

// Bookkeeping: no sockets. What workers have recorded passes by, and is not kept here.
//
// Threads: one at a time.
class Tracing {
 public:
  // *clock must outlive it.
  Tracing(const Clock& clock, int workers) : clock_(clock), asked_(static_cast<size_t>(workers)) {}

  bool is_recording() const { return ring_.is_on(); }
  // 0: none.
  uint64_t trace() const { return trace_; }
  const control::PeerName& client() const { return client_; }

  // Begins a trace of `client`, each thread keeping `events`. kFailedPrecondition: another client
  // has one.
  Status Begin(const control::PeerName& client, uint32_t events, TimePoint now);
  // Nothing is recorded here any more.
  void Stop() { ring_.Stop(); }
  // The trace is over.
  void End();

  // `client` speaks of `trace`: it has it, and is still there. kNotFound: it has not.
  Status Hear(const control::PeerName& client, uint64_t trace, TimePoint now);
  bool IsSilent(std::chrono::milliseconds lease, TimePoint now) const {
    return trace_ != 0 && now - heard_ > lease;
  }
  // That time was no client's silence.
  void Forgive(Deadline::Clock::duration gap) { heard_ += gap; }

  // A rank is asked for what it has recorded: once at a time, so that no client makes a worker send
  // without end. kResourceExhausted: it is being asked.
  Status Ask(Rank rank, TimePoint now);
  // It has answered.
  void NoteAnswered(Rank rank) { asked_[static_cast<size_t>(rank)] = TimePoint(); }

  // What the controller's thread does. `name` has static lifetime.
  void Mark(std::string_view name, SessionId session = {}, uint64_t command = 0,
            StatusCode code = StatusCode::kOk) {
    if (is_recording()) [[unlikely]]
      Add(name, session, command, code);
  }
  // A batch was sent to all workers.
  void AddBatch(SessionId session, uint64_t first_command, uint64_t bytes, TimePoint arrived);
  // That from number `from` on; nothing while it goes on.
  trace::Events Events(uint64_t from) const;

 private:
  void Add(std::string_view name, SessionId session, uint64_t command, StatusCode code);

  const Clock& clock_;
  trace::Ring ring_;
  uint64_t trace_ = 0;
  control::PeerName client_;
  TimePoint heard_;
  std::vector<TimePoint> asked_;  // by rank: when; none: it is not being asked
};

}  // namespace lockstep::controller
