// What a round of chaos is made of.
#pragma once

#include <chrono>
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
  kDelay,     // a client's connection stands still for a while
  kKill,      // a worker process is killed
  kStop,      // a worker process is frozen
  kReplace,   // a worker process is killed, and another takes its place
  kRestart,   // the controller's process is killed, and started again
};
inline constexpr int kFaults = 11;

// All of it follows from the seed.
struct Plan {
  uint64_t seed = 0;
  int workers = 0;
  int sessions = 0;
  bool processes = false;  // workers are processes, else threads
  Fault fault = Fault::kNone;
  int victim = 0;                        // the rank that the fault happens on
  int steps = 0;                         // that every client takes before the fault, at most
  std::chrono::milliseconds hold_up{0};  // kDelay

  std::string Describe() const;
};
Plan PlanOf(uint64_t seed);

// It happens to the connection of the first client.
constexpr bool HitsTheWire(Fault fault) { return fault == Fault::kCut || fault == Fault::kDelay; }

// The victim's rank has no worker any more.
constexpr bool LosesForGood(Fault fault) { return fault == Fault::kKill || fault == Fault::kStop; }

// It concerns every session, and takes processes.
constexpr bool HitsAll(Fault fault) { return fault >= Fault::kKill; }

}  // namespace lockstep::chaos
