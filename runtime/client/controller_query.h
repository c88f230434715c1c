// One question to a controller over a new connection, and its first answer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/zmq/zmq_context.h"
#include "schemas/session.capnp.h"

namespace lockstep::client {

// Waits for it; it has at least one frame. kUnavailable: no answer came within `timeout`; the
// errors of CheckEndpoint(), after two seconds at most, unless a controller MayBeStarting() there.
// kPermissionDenied, at once: the process that listens at `endpoint` does not let us in, or is not
// the one that it should be.
// kFailedPrecondition, kInvalidArgument: what answers is no controller (control::CheckProtocol()).
// kCancelled: `cancel_fd` became readable (-1: none).
StatusOr<control::Message> AwaitFirstAnswer(control::ClientChannel& channel,
                                            const std::string& endpoint,
                                            std::chrono::milliseconds timeout, int cancel_fd = -1);

// A new connection to the controller, which shows `credentials`; a direct one if `context` has its
// door (control::FindDoor()), behind which no socket listens. The errors of control::ZmqConnect().
StatusOr<std::unique_ptr<control::ClientChannel>> Connect(
    const std::string& endpoint, control::CredentialSource credentials,
    std::shared_ptr<control::ZmqContext> context);
// The same with the address's keys; also the errors of control::CredentialsFrom().
StatusOr<std::unique_ptr<control::ClientChannel>> Connect(
    const ControllerAddress& controller, std::shared_ptr<control::ZmqContext> context);

// Sends one message over a new connection, and waits for the answer. The errors of Connect() and
// AwaitFirstAnswer().
StatusOr<control::Message> AskOnce(const ControllerAddress& controller,
                                   const control::Frame& question,
                                   std::chrono::milliseconds timeout, int cancel_fd = -1);

// OK for what may be the answer. Else the error with which the controller refuses, or kUnavailable
// because the cluster is shutting down.
Status CheckIsAnswer(wire::ControllerMessage::Reader reader);

// kInternal: CheckIsAnswer() let it pass, but it does not answer the `question` ("a status
// request").
Status UnexpectedAnswer(std::string_view question, wire::ControllerMessage::Reader reader);

}  // namespace lockstep::client
