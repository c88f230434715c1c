// What a round of chaos is made of.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::chaos {

enum class Fault {
  kNone,
  kThrow,     // a function raises an error on one rank
  kDisagree,  // one rank brings another number of elements to an allreduce
  kReset,     // a client gives its work up
  kVanish,    // a client is gone without a word
  kCut,       // a client's connection breaks
  kKill,      // a worker process is killed
  kStop,      // a worker process is frozen
  kReplace,   // a worker process is killed, and another takes its place
  kRestart,   // the controller's process is killed, and started again
};
inline constexpr int kFaults = 10;

// All of it follows from the seed.
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

// It concerns every session, and takes processes.
constexpr bool HitsAll(Fault fault) { return fault >= Fault::kKill; }

}  // namespace lockstep::chaos
