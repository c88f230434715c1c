// One round of chaos: a cluster, a few clients, and one fault at a moment of chance.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::chaos {

enum class Fault {
  kNone,
  kThrow,     // a function raises an error on one rank
  kDisagree,  // one rank brings another number of elements to an allreduce
  kReset,     // a client gives its work up
  kKill,      // a worker process is killed
  kStop,      // a worker process is frozen
};

// What a round is made of; all of it follows from the seed.
struct Plan {
  uint64_t seed = 0;
  int workers = 0;
  int sessions = 0;
  bool processes = false;  // workers are processes, else threads
  Fault fault = Fault::kNone;
  int victim = 0;  // the rank that the fault happens on
  int steps = 0;   // that every client takes before the fault, at most

  std::string Describe() const;
};
Plan PlanOf(uint64_t seed);

// Runs it. Not OK if anything went otherwise than it has to: a wait over its bound, a wrong value
// in a session that the fault does not concern, an error that does not name the cause, or something
// left behind (processes, shared memory, descriptors of this process).
Status RunRound(const Plan& plan);

}  // namespace lockstep::chaos
