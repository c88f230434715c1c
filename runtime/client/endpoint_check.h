// What is wrong with an endpoint at which no controller answers: that is found out when no answer
// comes, because a controller may be starting meanwhile.
#pragma once

#include <chrono>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace lockstep::client {

// kUnavailable: an ipc:// path at which there is no socket, or a path or a tcp:// port on which no
// process listens; kInvalidArgument: a tcp:// host name that cannot be resolved, or a port at which
// HTTP is spoken; kCancelled: `cancel_fd` became readable (-1: none). OK: nothing is known to be
// wrong.
//
// Returns by `deadline`. At most two seconds (or `patience`) go by until a name is resolved, and
// until each of its addresses answers, as long as none does; then 300 ms until the listener speaks
// by itself, and `patience` until it answers otherwise.
Status CheckEndpoint(const std::string& endpoint, Deadline deadline, int cancel_fd = -1,
                     std::chrono::milliseconds patience = std::chrono::milliseconds(500));

// True if a controller may be starting where CheckEndpoint() has found that none listens: on
// another host, where a container or a pod may be on its way. On this host it has had its time.
bool MayBeStarting(const std::string& endpoint, const Status& found);

}  // namespace lockstep::client
