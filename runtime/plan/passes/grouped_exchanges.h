// A pass over a lowered program: small exchanges that follow each other become one.
#pragma once

#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/lowering/traffic.h"
#include "runtime/plan/passes/program_lowering.h"

namespace lockstep::plan {

// Marks operations that are done together with the one before them (LoweredOp::with_previous): what
// they exchange goes in one collective of the same kind, among the same teams, which takes the time
// of one if there is little of it. Those are neighbours in the list, none of which needs what
// another makes, and whose data takes less to be packed than an exchange takes at least.
//
// It looks at all that all ranks do, and at nothing else, so all ranks group alike: members of a
// team still come to their collectives in one order.
void GroupExchanges(const Topology& topology, const CostModel& costs, LoweredProgram* lowered);

}  // namespace lockstep::plan
