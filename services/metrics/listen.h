// The address of the HTTP port.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "services/metrics/socket.h"

namespace lockstep::metrics {

struct Listener {
  Socket socket;         // does not block
  std::string endpoint;  // with the port that it really has
};

// `endpoint` is "http://ADDRESS:PORT", an IPv6 address in brackets; port * or 0: any free one.
// kInvalidArgument; kUnavailable if it cannot listen there.
StatusOr<Listener> Listen(const std::string& endpoint);

}  // namespace lockstep::metrics
