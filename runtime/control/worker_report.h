// What a worker tells others of itself: what it is doing, and what its registers hold.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/ids.h"

namespace lockstep {

// What a worker is doing.
struct WorkerActivity {
  enum class Kind : uint8_t {
    kNone,        // it waits for commands
    kCommand,     // something of its own: no peer can end it sooner
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
  std::string what;   // the function or collective
  std::string place;  // of a plan's step: its line, "gradients.yaml:20"; else nothing
  // A collective is one of some of these ranks.
  Rank first_rank = 0;
  Rank last_rank = std::numeric_limits<Rank>::max();
  std::chrono::milliseconds since{0};  // how long ago it began

  // "allreduce", "allreduce at gradients.yaml:20"
  std::string WhatAndPlace() const;
  // "command 17 (allreduce) of session 3 for 2.4 s", "nothing"
  std::string Describe() const;
};

// How a tensor lies on the workers, for people.
struct HeldLayout {
  struct Axis {
    std::string name;
    uint32_t size = 0;
    bool operator==(const Axis&) const = default;
  };
  std::string dtype;
  std::vector<int64_t> shape;           // of the whole tensor
  std::vector<Axis> axes;               // of the mesh
  std::vector<Rank> ranks;              // in row-major order
  std::vector<std::string> placements;  // for each axis: "replicate", "shard(0)", ...

  bool operator==(const HeldLayout&) const = default;
};

// What a register of a session holds. Its content is not told: who may look at a cluster may not
// read its data.
struct HeldRegister {
  RegisterId id;
  std::string name;  // empty: it has none
  std::string type;  // "tensor", "int64", "text", "function", ...
  uint64_t bytes = 0;
  // Of a tensor.
  std::string dtype;
  std::vector<int64_t> shape;
  std::string device;
  std::string detail;  // which function or module it is, how many items are in it
  // Null: that is not known. Registers that lie alike share one.
  std::shared_ptr<const HeldLayout> layout;
  bool layout_left_out = false;  // it is known, and not told: that would be too much

  bool operator==(const HeldRegister& other) const;
};

struct SessionHoldings {
  SessionId session;
  uint64_t registers = 0;  // that have a value
  uint64_t bytes = 0;      // of all of them
  // By id; when there are more than were asked for, those that hold most.
  std::vector<HeldRegister> listed;
};

}  // namespace lockstep
