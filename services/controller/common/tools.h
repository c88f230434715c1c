// What every part of the controller may use, besides the parts that it is given by name.
#pragma once

#include "services/controller/common/broadcaster.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/counts.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tracing.h"
#include "services/controller/options.h"

namespace lockstep::controller {

// Threads: one at a time. All outlive the parts.
struct Tools {
  const ControllerOptions& options;
  const Clock& clock;
  Timers& timers;
  const Membership& membership;
  Outbox& outbox;
  Broadcaster& broadcaster;
  Liveness& liveness;
  Counts& counts;
  Tracing& tracing;
};

}  // namespace lockstep::controller
