// What a worker is doing, as it tells others.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "runtime/base/ids.h"

namespace lockstep {

struct WorkerActivity {
  enum class Kind : uint8_t {
    kNone,        // it waits for commands
    kCommand,     // something of its own: nobody else can end it sooner
    kCollective,  // it works with its peers, and may be waiting for them
  };

  // Progress since the worker's start.
  uint64_t received = 0;   // sequence of the last batch taken from the command socket
  uint64_t launched = 0;   // commands begun
  uint64_t completed = 0;  // commands finished, failed or skipped
  // What it holds, over all sessions.
  uint64_t registers = 0;     // that have a value
  uint64_t tensor_bytes = 0;  // of the tensors in them; those that share memory count twice
  // Collectives that it has finished since its start.
  uint64_t collectives = 0;
  uint64_t bus_bytes = 0;  // what they carried over its bus, by nccl-tests' formulas
  std::chrono::nanoseconds in_collectives{0};  // waiting for peers included
  Kind kind = Kind::kNone;
  // What is executed; only with a kind.
  SessionId session;
  uint64_t command = 0;
  std::string what;  // the function or collective
  // A collective is one of some of these ranks.
  Rank first_rank = 0;
  Rank last_rank = std::numeric_limits<Rank>::max();
  std::chrono::milliseconds since{0};  // how long ago it began

  // "command 17 (allreduce) of session 3 for 2.4 s", "nothing"
  std::string Describe() const;
};

}  // namespace lockstep
