// The cluster of a round on several hosts, from its start to its end.
#pragma once

#include "runtime/base/status.h"
#include "tests/chaos/plan.h"

namespace lockstep::chaos {

// Takes a process that support::VirtualHosts::WhyNot() has nothing against.
Status RunClusterOnHosts(const Plan& plan);

}  // namespace lockstep::chaos
