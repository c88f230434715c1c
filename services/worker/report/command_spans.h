// What the executing thread records for a timeline: the commands that it executes, and how long it
// waits for them.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/trace/ring.h"
#include "services/worker/report/transfer_counts.h"

namespace lockstep::worker {

// While no client asks for a timeline, all that is done here is looking at is_on() and is_open().
//
// Threads: ring() as it says itself; all else belongs to the executing thread.
class CommandSpans {
 public:
  trace::Ring& ring() { return ring_; }
  bool is_on() const { return ring_.is_on(); }
  // A command is recorded now.
  bool is_open() const { return is_open_; }

  // A batch was taken from the socket; until then the thread has waited.
  void EndWait(Deadline::Clock::time_point taken);
  void Begin(SessionId session, uint64_t command, std::string_view name);
  void End();

  // One step of a plan; times as trace::Now() tells them.
  struct Step {
    uint32_t number = 0;
    std::string_view name = {};
    trace::Kind kind = trace::Kind::kCommand;
    uint16_t lane = 0;
    int64_t began = 0;
    int64_t ended = 0;
  };
  // Of the command that is recorded, if there is one: the name of what it executes, ...
  void Name(std::string_view name, trace::Kind kind) {
    if (!is_open_) return;
    event_.SetName(name);
    event_.kind = kind;
  }
  // ... what the collective was, ...
  void Describe(const CollectiveFacts& facts);
  // ... a step of it, ...
  void AddStep(const Step& step);
  // ... and how it has failed, with which it is over: who hears of the failure may end the
  // recording at once, and finds it. Nothing if another command is recorded.
  void Fail(SessionId session, uint64_t command, StatusCode code);

 private:
  trace::Ring ring_;
  trace::Event event_;
  bool is_open_ = false;
  // When the last command ended, or the batch was taken: the next one begins then. Reading the
  // clock costs as much as some commands do.
  int64_t free_since_ = 0;
};

}  // namespace lockstep::worker
