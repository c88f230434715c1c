// What the clients of a round do, and what has to come of it.
#pragma once

#include "runtime/base/status.h"
#include "tests/chaos/client.h"
#include "tests/chaos/plan.h"

namespace lockstep::chaos {

// The part of a client that the fault concerns. A fault that hits all clients is injected
// elsewhere (RunClients).
Status RunFault(Client& client, const Plan& plan);

}  // namespace lockstep::chaos
