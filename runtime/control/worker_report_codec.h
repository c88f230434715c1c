// Reports of workers on the wire.
#pragma once

#include <vector>

#include "runtime/control/worker_report.h"
#include "schemas/membership.capnp.h"

namespace lockstep::control {

void WriteActivity(const WorkerActivity& activity, wire::Activity::Builder builder);
WorkerActivity ReadActivity(wire::Activity::Reader reader);

void WriteHoldings(const std::vector<SessionHoldings>& sessions,
                   wire::HeldRegisters::Builder builder);
std::vector<SessionHoldings> ReadHoldings(wire::HeldRegisters::Reader reader);

}  // namespace lockstep::control
