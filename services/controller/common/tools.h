// What every part of the controller may read, and where it notes what happens. What a part has
// effects through (the outbox, the broadcaster, liveness, other parts) it is given by name.
#pragma once

#include "services/controller/common/clock.h"
#include "services/controller/common/counts.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/tracing.h"
#include "services/controller/options.h"

namespace lockstep::controller {

// Threads: one at a time. All outlive the parts.
struct Tools {
  const ControllerOptions& options;
  const Clock& clock;
  Timers& timers;
  const Membership& membership;
  // Nothing is decided by what is noted.
  Counts& counts;
  Tracing& tracing;
};

}  // namespace lockstep::controller
