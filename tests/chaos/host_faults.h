// What happens to hosts, and to the wires between them.
#pragma once

#include "runtime/base/status.h"
#include "tests/chaos/plan.h"
#include "tests/integration/hosts/netns_cluster.h"

namespace lockstep::chaos {

// Makes a host's wire as the plan says that wires are.
void SetWireQuality(testing::NetnsCluster& cluster, const Plan& plan, int host);

// Brings the plan's fault about, which is one that hits all, and puts right what is to be put
// right: then wires are mended, and the workers that are missing have been started again.
Status InjectHostFault(testing::NetnsCluster& cluster, const Plan& plan);

}  // namespace lockstep::chaos
