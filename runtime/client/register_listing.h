// What the registers of a cluster's sessions hold, without a session.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/control/activity.h"
#include "runtime/control/frame.h"
#include "runtime/control/held_registers.h"

namespace lockstep {

struct RegisterQuestion {
  SessionId session;    // of this one alone; none: of all
  Rank rank = -1;       // on this one alone; -1: on all
  uint32_t most = 256;  // registers that each rank tells of; the controller may lower it
};

// What one rank has told.
struct RankRegisters {
  Rank rank = 0;
  std::string why;                        // why it has not; empty: it has
  WorkerActivity activity;                // what it was doing, if that is why
  std::vector<SessionHoldings> sessions;  // by id
};

// In rank order. A rank that is busy with a long command does not tell what it holds. kNotFound:
// the session is not open; kInvalidArgument: there is no such rank; kUnavailable if nobody answers
// within `timeout`; kPermissionDenied if the controller does not let us in.
StatusOr<std::vector<RankRegisters>> ListRegisters(const ControllerAddress& controller,
                                                   const RegisterQuestion& question,
                                                   std::chrono::milliseconds timeout);

namespace client {

// The answer, for ListRegisters() and for tests.
StatusOr<std::vector<RankRegisters>> ReadRegisterListing(const control::Message& answer);

}  // namespace client
}  // namespace lockstep
