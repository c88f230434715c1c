// What is wrong with an endpoint at which no controller answers: that is found out when no answer
// comes, because a controller may be starting meanwhile.
#pragma once

#include <chrono>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::client {

// kUnavailable: an ipc:// path at which there is no socket, or one on which no process listens;
// kInvalidArgument: a tcp:// host name that cannot be resolved, or a port at which HTTP is spoken.
// OK: nothing is known to be wrong. A listener that is silent is waited for as long as `patience`
// for each of two steps; to resolve a name takes as long as the system's resolver does.
Status CheckEndpoint(const std::string& endpoint,
                     std::chrono::milliseconds patience = std::chrono::milliseconds(500));

}  // namespace lockstep::client
