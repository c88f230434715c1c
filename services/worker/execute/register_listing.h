// What to tell of the registers of a worker's sessions.
#pragma once

#include <memory>
#include <vector>

#include "runtime/control/worker_report.h"
#include "services/worker/execute/session_state.h"
#include "services/worker/report/register_query_queue.h"

namespace lockstep::worker {

// Registers that one answer tells of at most, whatever is asked: it is a message on the liveness
// socket.
inline constexpr size_t kMostListedRegisters = 4096;
// When the layouts in an answer name so many ranks, no other layout is told.
inline constexpr size_t kMostListedLayoutRanks = 65'536;

// On the executing thread. `sessions` by id.
std::vector<SessionHoldings> ListRegisters(
    const std::vector<std::shared_ptr<SessionState>>& sessions,
    const RegisterQueryQueue::Question& question);

}  // namespace lockstep::worker
