// Holdings on the wire.
#pragma once

#include <vector>

#include "runtime/control/held_registers.h"
#include "schemas/membership.capnp.h"

namespace lockstep::control {

void WriteHoldings(const std::vector<SessionHoldings>& sessions,
                   wire::HeldRegisters::Builder builder);
std::vector<SessionHoldings> ReadHoldings(wire::HeldRegisters::Reader reader);

}  // namespace lockstep::control
