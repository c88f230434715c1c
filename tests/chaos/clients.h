// All clients of a round.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "tests/chaos/plan.h"

namespace lockstep::chaos {

// Runs them against the cluster of `controller`, until all have ended. If the fault is one that
// hits all, `strike` brings it about, and mends it as far as it is to be mended, while they work.
Status RunClients(const Plan& plan, const ControllerAddress& controller,
                  const std::function<Status()>& strike);

}  // namespace lockstep::chaos
