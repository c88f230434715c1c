// The first answer over a new connection to a controller.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/client/address.h"
#include "runtime/control/channel.h"
#include "runtime/control/frame.h"
#include "runtime/control/zmq/zmq_context.h"

namespace lockstep::client {

// Waits for it; it has at least one frame. kUnavailable: nobody has answered within `timeout`.
// kPermissionDenied, at once: whoever listens at `endpoint` does not let us in, or is not who he
// should be. kCancelled: `cancel_fd` became readable (-1: none).
StatusOr<control::Message> AwaitFirstAnswer(control::ClientChannel& channel,
                                            const std::string& endpoint,
                                            std::chrono::milliseconds timeout, int cancel_fd = -1);

// A new connection to the controller, which shows the address's keys. The errors of
// control::CredentialsFrom() and control::ZmqConnect().
StatusOr<std::unique_ptr<control::ClientChannel>> Connect(
    const ControllerAddress& controller, std::shared_ptr<control::ZmqContext> context);

// Sends one message over a new connection, and waits for the answer. The errors of Connect() and
// AwaitFirstAnswer().
StatusOr<control::Message> AskOnce(const ControllerAddress& controller,
                                   const control::Frame& question,
                                   std::chrono::milliseconds timeout, int cancel_fd = -1);

}  // namespace lockstep::client
