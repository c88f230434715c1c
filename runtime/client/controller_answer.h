// What a controller says instead of the answer that was asked for.
#pragma once

#include <string_view>

#include "runtime/base/status.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {

// OK for what may be the answer. Else the error with which the controller refuses, or kUnavailable
// because the cluster is shutting down.
Status CheckIsAnswer(wire::ControllerMessage::Reader reader);

// kInternal: CheckIsAnswer() let it pass, but it does not answer the `question` ("a status
// request").
Status UnexpectedAnswer(std::string_view question, wire::ControllerMessage::Reader reader);

}  // namespace lockstep::client
