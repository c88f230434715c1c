// What a container's health check is: the program itself, asking the one that runs.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::process {

// Asks /healthz at `metrics_endpoint`, as a service's configuration has it ("http://ADDRESS:PORT").
// OK if it says so. kFailedPrecondition: there is nothing to ask; kUnavailable: no answer within
// two seconds; kInternal: it says otherwise.
Status AskForHealth(const std::string& metrics_endpoint);

}  // namespace lockstep::process
