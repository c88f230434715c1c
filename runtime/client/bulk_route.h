// By which of several addresses worker-0's bulk socket is reached.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::client {

// Where worker-0 may be found: where it says, and, should that be an address of a network that this
// client is not in (a container's, a pod's), at its port of the host by which the client has found
// the controller, since a host that publishes one publishes the other. Endpoints without a host,
// and hosts that are the same, leave one route.
std::vector<std::string> BulkRoutes(const std::string& worker_endpoint,
                                    const std::string& controller_endpoint);

// The first of `routes` where a process listens: of those that answer at about the same time, the
// earlier in the list. They are tried at once, and each for `patience`; when none answers it is the
// first, for a connection goes on trying. A single route is not tried at all. Which process
// listens there is for the keys to tell.
std::string ChooseBulkRoute(const std::vector<std::string>& routes,
                            std::chrono::milliseconds patience);

}  // namespace lockstep::client
