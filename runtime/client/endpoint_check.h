// What is wrong with an endpoint at which no controller answers: that is found out when no answer
// comes, because a controller may be starting meanwhile.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::client {

// kUnavailable: an ipc:// path at which there is no socket, or one on which no process listens;
// kInvalidArgument: a tcp:// host name that cannot be resolved. OK: nothing is known to be wrong.
// Resolving a name may take as long as the system's resolver does.
Status CheckEndpoint(const std::string& endpoint);

}  // namespace lockstep::client
