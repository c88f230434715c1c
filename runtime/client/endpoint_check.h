// What is wrong with an endpoint at which no controller answers: that is found out when no answer
// comes, because a controller may be starting meanwhile.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::client {

// kUnavailable: an ipc:// path at which there is no socket, or one on which no process listens;
// kInvalidArgument: a tcp:// host name that cannot be resolved, or a port at which HTTP is spoken.
// OK: nothing is known to be wrong. Takes up to a second, and to resolve a name as long as the
// system's resolver does.
Status CheckEndpoint(const std::string& endpoint);

}  // namespace lockstep::client
