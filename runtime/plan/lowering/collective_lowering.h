// Lowering a collective that a program asks for by name: to the one move that it says, where
// lowering a reshard would choose among several.
//
// A broadcast is an exchange, straight or forwarded, whichever costs less: plans have no other.
// Threads: any.
#pragma once

#include "runtime/base/status.h"
#include "runtime/plan/collective.h"
#include "runtime/plan/lowering/reshard.h"
#include "runtime/plan/lowering/topology.h"
#include "runtime/plan/lowering/traffic.h"

namespace lockstep::plan {

// `layouts` are LayoutsOf() the collective. Deterministic. kResourceExhausted: it has more pieces
// than `most_effort`.
StatusOr<Reshard> LowerCollective(const Collective& collective, const CollectiveLayouts& layouts,
                                  const Topology& topology, const CostModel& costs,
                                  int64_t most_effort = kMaxReshardEffort);

}  // namespace lockstep::plan
