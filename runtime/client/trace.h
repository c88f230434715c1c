// A timeline of a cluster's work: what was done when, on all ranks, by one clock.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/trace/event.h"

namespace lockstep {

struct TraceOptions {
  // How many events each thread keeps, at most 262,144: then the oldest make room. A worker needs
  // 128 bytes for each, as they happen.
  uint32_t events = 65'536;
  // How long to wait for a controller or worker that does not answer.
  std::chrono::milliseconds timeout{5'000};
};

struct TraceThread {
  std::string name;   // "executing", "bulk"
  uint64_t lost = 0;  // older events that had to make room
  // In order of their ends. Times are the controller's clock's, in nanoseconds.
  std::vector<trace::Event> events;
};

struct TraceProcess {
  enum class Role { kClient, kController, kWorker };

  Role role = Role::kWorker;
  Rank rank = -1;
  std::string host;
  int pid = 0;
  // By how much its times may be off; 0: it reads the controller's clock.
  std::chrono::nanoseconds clock_uncertainty{0};
  bool clock_is_known = true;  // false: it could not be compared, its times may mean anything
  std::string missing;         // why there is nothing (all) of it; empty: there is
  std::vector<TraceThread> threads;

  // "rank 2", "controller", "client"
  std::string Name() const;
  uint64_t lost() const;
};

struct Trace {
  std::vector<TraceProcess> processes;

  size_t NumEvents() const;
  uint64_t lost() const;
  // Of the process whose clock is known least.
  std::chrono::nanoseconds clock_uncertainty() const;
  // Drops what other sessions have done.
  void KeepSession(SessionId session);
};

// A rank's waiting in a collective for the one that came last.
struct PeerWait {
  size_t process = 0;  // its place in the trace; it is the first thread that waits
  int64_t begin = 0;
  int64_t end = 0;
  Rank last = 0;
};

// Of the collectives that all members leave together, of which the trace has all. Waits that are
// shorter than the clocks are sure are left out.
std::vector<PeerWait> FindPeerWaits(const Trace& trace);

}  // namespace lockstep
