// What a round of chaos is made of.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"

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
  // These take hosts.
  kPause,              // a host's wire is cut, and mended in time
  kPartition,          // a host's wire is cut, and mended when its workers are lost
  kCutForGood,         // a host's wire is cut for good
  kDropIncoming,       // what is sent to a host does not arrive, until its workers are lost
  kIsolateController,  // the controller's wire is cut, and mended when all workers are lost
  kSeparateHosts,      // two hosts do not reach each other, until a rank has waited too long
  kPowerCut,           // a host vanishes, and boots again
  kLateHost,           // a host joins after all others
};
inline constexpr int kFaultsOfOneHost = 11;

// What the wires between hosts are like, all the time.
enum class WireQuality { kGood, kLossy, kLowBandwidth, kLongDelay };

// All of it follows from the seed.
struct Plan {
  uint64_t seed = 0;
  int workers = 0;
  int sessions = 0;
  bool processes = false;  // workers are processes, else threads
  bool rings = false;      // commands go by ring to those that share memory with the controller
  bool mixed = false;      // ... but by socket to odd ranks
  bool keys = false;       // of processes; without keys, clients' messages go by ring, too
  bool relays = false;     // ... through other workers to all but two
  Fault fault = Fault::kNone;
  int victim = 0;                        // the rank that the fault happens on
  int steps = 0;                         // that every client takes before the fault, at most
  std::chrono::milliseconds hold_up{0};  // kDelay, kPause

  // On several hosts:
  int hosts = 0;  // 0: all on this one
  int host = 0;   // that the fault happens on: the victim's, or (kPause, kIsolateController) the
                  // controller's
  int other = 0;  // kSeparateHosts: the host that it does not reach
  bool copies = false;
  WireQuality wires = WireQuality::kGood;
  int one_in = 0;                       // kLossy: so many packets are lost
  int mbit = 0;                         // kLowBandwidth: so much gets through in a second
  std::chrono::milliseconds length{0};  // kLongDelay: so long is each host's wire, one way
  std::chrono::milliseconds delay{0};   // from the moment that all work to the fault

  // How long a client may be silent.
  std::chrono::milliseconds Lease() const {
    if (fault == Fault::kIsolateController)
      return std::chrono::seconds(20);  // not a matter of clients
    return std::chrono::milliseconds(hosts > 0 ? 4000 : 1500);
  }
  // A worker that is silent for so long is lost. On several hosts: longer than a wait on a busy
  // machine, or a wire that is mended in time; and where packets are lost, longer than it takes to
  // connect if the first two that ask for it are (3 s).
  std::chrono::milliseconds WorkerTimeout() const {
    if (wires == WireQuality::kLossy) return std::chrono::seconds(5);
    return std::chrono::milliseconds(hosts > 0 ? 3000 : 600);
  }
  // No call of a client may take longer, whatever happens, on a machine that is busy with the
  // tests.
  std::chrono::milliseconds LongestCall() const { return std::chrono::seconds(hosts > 0 ? 15 : 5); }
  int RanksPerHost() const { return workers / hosts; }
  int HostOf(Rank rank) const { return rank / RanksPerHost(); }
  // Those that have no worker any more, or another one.
  std::vector<Rank> LostRanks() const;
  std::string Describe() const;
};
// On this host.
Plan PlanOf(uint64_t seed);
// On hosts of a network of its own.
Plan PlanOnHosts(uint64_t seed);

// It happens to the connection of the first client.
constexpr bool HitsTheWire(Fault fault) { return fault == Fault::kCut || fault == Fault::kDelay; }

// The victims' ranks have no worker any more.
constexpr bool LosesForGood(Fault fault) {
  return fault == Fault::kKill || fault == Fault::kStop || fault == Fault::kCutForGood;
}

// It concerns every session, and takes processes.
constexpr bool HitsAll(Fault fault) { return fault >= Fault::kKill; }

// All ranks of the host (kIsolateController: of all hosts) are lost, not only the victim's.
constexpr bool LosesHosts(Fault fault) {
  return fault == Fault::kPartition || fault == Fault::kCutForGood ||
         fault == Fault::kDropIncoming || fault == Fault::kIsolateController ||
         fault == Fault::kPowerCut;
}

}  // namespace lockstep::chaos
