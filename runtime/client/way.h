// Which of several ways leads to worker-0.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::client {

// Where worker-0 may be found: where it says, and, should that be an address of a network that this
// client is not in (a container's, a pod's), at its port of the host by which the client has found
// the controller, for whoever publishes one publishes the other. Endpoints without a host, and
// hosts that are the same, leave one way.
std::vector<std::string> WaysTo(const std::string& worker_endpoint,
                                const std::string& controller_endpoint);

// The first of `ways` where somebody listens: of those who answer at about the same time, the
// earlier in the list. They are tried at once, and each for `patience`; when none answers it is the
// first, for whoever connects goes on trying. One way is not tried at all. Who listens there is
// for the keys to tell.
std::string ChooseWay(const std::vector<std::string>& ways, std::chrono::milliseconds patience);

}  // namespace lockstep::client
