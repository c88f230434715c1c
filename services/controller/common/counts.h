// What is counted of what happens, for a monitoring system (reports/metrics.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "schemas/session.capnp.h"
#include "services/metrics/counters.h"

namespace lockstep::controller {

struct CopyCounts {
  metrics::Counter operations;
  metrics::Counter bytes;
  metrics::Counter nanos;

  // What a client says.
  void Add(wire::Copies::Reader copies) {
    // More than any client copies between two batches is not believed.
    constexpr uint64_t kMost = uint64_t{1} << 50;
    operations.Add(std::min(copies.getOperations(), kMost));
    bytes.Add(std::min(copies.getBytes(), kMost));
    nanos.Add(std::min(copies.getNanos(), kMost));
  }
};

// Threads: one counts, any may read.
struct Counts {
  metrics::Counter sessions_opened;
  metrics::Counter sessions_resumed;   // by their clients, after a controller was started again
  metrics::Counter sessions_attached;  // by other clients
  metrics::Counter resets;
  metrics::Counter aborts;
  metrics::Counter workers_lost;
  metrics::Counter workers_replaced;
  std::array<metrics::Counter, metrics::kCodes> errors;
  metrics::DurationHistogram requests;
  CopyCounts copied_to;    // what clients have copied into worker-0's memory, ...
  CopyCounts copied_from;  // ... and out of it
};

}  // namespace lockstep::controller
