// Asks a service by HTTP.
#pragma once

#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "services/metrics/http_message.h"

namespace lockstep::metrics {

// GET `path` at `endpoint` ("http://HOST:PORT"), which ends the connection after its answer.
// kUnavailable if it has not by `deadline`, or says no status, or more than 1 MiB; kInvalidArgument
// if `endpoint` names nothing to ask. Waits; on the calling thread.
StatusOr<HttpResponse> HttpGet(const std::string& endpoint, const std::string& path,
                               const Deadline& deadline);

}  // namespace lockstep::metrics
