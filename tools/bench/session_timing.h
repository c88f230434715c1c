// How long a session's calls take.
#pragma once

#include <chrono>

#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::bench {

// The median time of a SyncAll in microseconds, over `time`; after some that do not count.
StatusOr<double> TimeSync(Session& session, std::chrono::milliseconds time);

}  // namespace lockstep::bench
