// What a round must leave as it was.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "tests/chaos/plan.h"

namespace lockstep::chaos {

// How long everything has to be gone.
constexpr std::chrono::seconds kPatience{10};

// What the descriptors of this process refer to.
std::multiset<std::string> OpenDescriptors();
// None but those of `before`.
Status CheckDescriptors(const std::multiset<std::string>& before);

// How many descriptors each process has open.
std::map<pid_t, size_t> DescriptorsOf(const std::vector<pid_t>& pids);
// Those of `pids` that were there before have no more open than then, soon.
Status CheckDescriptorsOf(const std::vector<pid_t>& pids, const std::map<pid_t, size_t>& before);

// All sessions are closed, or their clients are gone: nothing of them is left in the cluster at
// `controller`, and the workers that the fault did not concern are ready.
Status CheckAtRest(const ControllerAddress& controller, const Plan& plan);

}  // namespace lockstep::chaos
