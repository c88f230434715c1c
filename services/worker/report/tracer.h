// The worker's part of a timeline: it records when the controller says so, compares its clock with
// the controller's, and tells what it has recorded, a piece at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/control/channel.h"
#include "runtime/control/worker_report.h"
#include "runtime/trace/clock.h"
#include "runtime/trace/events_codec.h"
#include "runtime/trace/ring.h"
#include "schemas/trace.capnp.h"

namespace lockstep::worker {

// Threads: belongs to the liveness thread, which answers while the executing thread is in a long
// kernel.
class Tracer {
 public:
  // How many round trips a comparison of clocks takes, and how long it may take.
  static constexpr int kRoundTrips = 8;
  static constexpr std::chrono::milliseconds kLongestComparison{250};

  // The rings of the two threads that record are borrowed. `clock_shift` is added to all times that
  // are told.
  Tracer(trace::Ring& executing, trace::Ring& bulk, std::chrono::nanoseconds clock_shift)
      : executing_(executing), bulk_(bulk), clock_shift_(clock_shift.count()) {}

  // Who says what follows; nothing is recorded until it is asked for.
  struct Identity {
    Rank rank = 0;
    Epoch controller;
    uint64_t watch = 0;
  };
  void SetController(const Identity& identity);
  // What is to be sent because `order` has come. `activity`: what the executing thread does.
  std::vector<control::Message> Take(wire::TraceOrder::Reader order,
                                     const WorkerActivity& activity);
  // What is to be sent because a request has waited long enough.
  std::vector<control::Message> Look();
  // The trace is over: its memory is given back.
  void End();

 private:
  struct Fetch {
    uint64_t trace = 0;
    uint64_t request = 0;
    uint16_t thread = 0;
    uint64_t from = 0;
  };

  // The clock that is told.
  int64_t Now() const { return trace::Now() + clock_shift_; }
  void Start(uint64_t trace, uint32_t events);
  void Stop(const WorkerActivity& activity);
  // Compares the clocks anew; the answer brings the next question.
  control::Message Compare();
  control::Message AskForTime();
  void FinishComparison(std::vector<control::Message>& messages);
  control::Message Answer(const Fetch& fetch) const;
  trace::Events Events(const Fetch& fetch) const;

  trace::Ring& executing_;
  trace::Ring& bulk_;
  const int64_t clock_shift_;
  Identity identity_;

  uint64_t trace_ = 0;  // 0: none
  bool recording_ = false;
  std::optional<trace::Event> unfinished_;  // what was under way when the recording ended
  // Of this trace: when it began, and when it ended.
  std::vector<trace::ClockSample> clocks_;
  std::optional<trace::ClockComparison> comparison_;  // that is under way
  int64_t asked_ = 0;
  Deadline comparison_ends_ = Deadline::After({});
  std::vector<Fetch> waiting_;  // for the comparison to end
};

}  // namespace lockstep::worker
