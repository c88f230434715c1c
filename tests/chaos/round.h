// One round of chaos: a cluster, a few clients, and one fault at a random moment.
#pragma once

#include "runtime/base/status.h"
#include "tests/chaos/plan.h"

namespace lockstep::chaos {

// Runs it. Not OK if anything went otherwise than it has to: a wait over its bound, a wrong value
// in a session that the fault does not concern, an error that does not name the cause, a worker
// that is disturbed although the fault is another's, or something left behind (registers,
// processes, shared memory, descriptors of this process).
Status RunRound(const Plan& plan);

}  // namespace lockstep::chaos
