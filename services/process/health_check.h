// What orchestrators do inside of a container: the program itself asks the one that runs there.
#pragma once

#include <chrono>
#include <string>

#include "runtime/base/status.h"

namespace lockstep::process {

// Asks /healthz at `metrics_endpoint`, as a service's configuration has it ("http://ADDRESS:PORT").
// OK if it says so. kFailedPrecondition: there is nothing to ask; kUnavailable: no answer within
// two seconds; kInternal: it says otherwise.
Status AskForHealth(const std::string& metrics_endpoint);

// Returns when /idlez there says that no session is open. The last answer after `patience`, or when
// there was no answer three times; the other errors of AskForHealth() at once.
Status AwaitIdle(const std::string& metrics_endpoint, std::chrono::microseconds patience);

}  // namespace lockstep::process
