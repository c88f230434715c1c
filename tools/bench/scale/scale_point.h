// What a controller costs with so many workers: a controller process of its own, simulated workers
// and a client in this one.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::bench {

struct ScaleOptions {
  int workers = 8;
  // An empty directory.
  std::string directory;
  // The controller's program; empty: the one that is built beside this program.
  std::string controller = {};
  // How long each thing is done that is done again and again.
  double seconds = 1;
  int sessions = 16;  // opened to see what one costs
  // Commands go through a tree of the workers, each of which passes them on to so many; 0: they go
  // from the controller to each.
  int relay_fan_out = 0;
};

// CPU is the controller's alone, all of its threads.
struct ScalePoint {
  int workers = 0;
  double join_seconds = 0;    // from the first hello until a session is open
  double join_cpu_ms = 0;     // ... and what that cost
  double idle_percent = 0;    // of a core, while nothing is done: heartbeats
  double broadcast_us = 0;    // CPU of a batch of one no-op call to all workers
  double sync_us = 0;         // CPU of a sync: to all workers, and an answer of each
  double sync_wall_us = 0;    // until the client has it, the workers' time included
  double memory_mb = 0;       // resident when all have joined
  double peak_mb = 0;         // the most that it was until the end
  double session_kb = 0;      // more resident memory for each session
  double status_kb = 0;       // size of the answer to `lockstep status`
  double why_ms = 0;          // `lockstep why`, until the answer has come
  double notice_seconds = 0;  // from a worker's last word until the client's error
  double close_ms = 0;        // then, until all workers that are left have closed a session
  double mend_ms = 0;         // from another worker's hello until the session works again
  double mend_cpu_ms = 0;     // ... and what that cost
};

// Bounded in time; ends what it has started. An error says what could not be measured.
StatusOr<ScalePoint> MeasureScalePoint(const ScaleOptions& options);

}  // namespace lockstep::bench
