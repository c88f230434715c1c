// One thing that a thread has done, and when.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

namespace lockstep::trace {

// What an event is about. The numbers are the wire's.
enum class Kind : uint16_t {
  kCommand = 0,     // executing a command
  kCollective = 1,  // the same, with other ranks
  kWait = 2,        // for others
  kCopy = 3,        // tensors between a client and worker-0
  kBatch = 4,       // handing commands on
  kMark = 5,        // a moment: an abort, a loss, ...
};

// Plain bytes of one size, so that recording one is a copy: no allocation, no lookup.
struct Event {
  static constexpr size_t kMaxNameBytes = 51;
  static constexpr size_t kMaxBackendBytes = 15;

  // Nanoseconds of the steady clock. A moment ends when it begins.
  int64_t begin = 0;
  int64_t end = 0;
  uint64_t command = 0;  // of a batch: its first one; 0: none
  uint64_t bytes = 0;
  uint32_t session = 0;   // 0: none
  uint32_t commands = 0;  // of a batch: how many
  uint32_t step = 0;      // of a plan's command: which of its rank's steps, from 1; 0: none
  Rank first = 0;         // of a collective: the lowest rank of those that take part, ...
  uint16_t ranks = 0;     // ... and how many do
  Kind kind = Kind::kCommand;
  uint16_t code = 0;        // how it failed; 0: it did not
  uint16_t lane = 0;        // where several threads record together: which one
  bool unfinished = false;  // still going on when the recording ended
  char backend[kMaxBackendBytes + 1] = {};
  char name[kMaxNameBytes + 1] = {};

  // What is too long is cut.
  void SetName(std::string_view text) { Set(name, kMaxNameBytes, text); }
  void SetBackend(std::string_view text) { Set(backend, kMaxBackendBytes, text); }

 private:
  static void Set(char* to, size_t most, std::string_view text) {
    const size_t size = std::min(most, text.size());
    std::memcpy(to, text.data(), size);
    to[size] = '\0';
  }
};

// docs/tracing.md says what a recording needs.
static_assert(sizeof(Event) == 128);

inline int64_t Nanos(Deadline::Clock::time_point when) {
  return std::chrono::nanoseconds(when.time_since_epoch()).count();
}
inline int64_t Now() { return Nanos(Deadline::Clock::now()); }

}  // namespace lockstep::trace
