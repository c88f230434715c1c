// Asks a service by HTTP.
#pragma once

#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "services/metrics/http_message.h"

namespace lockstep::metrics {

// GET `path` at `endpoint` ("http://HOST:PORT"). kUnavailable if there is no whole answer until
// `deadline`, or it is larger than 1 MiB; kInvalidArgument if `endpoint` names nothing to ask.
// Waits; on the calling thread.
StatusOr<HttpResponse> HttpGet(const std::string& endpoint, const std::string& path,
                               const Deadline& deadline);

}  // namespace lockstep::metrics
