// The backend for CPU ranks on several hosts: messages over TCP, with nothing between a rank and
// its socket.
//
// Operations, their checks and their reductions are those of runtime/collective/message. Every
// communicator has connections of its own, so that ending one leaves the others untouched. A
// connection begins with a number that only the ranks know, because they were told it over the
// rendezvous; what follows is neither encrypted nor authenticated: run it in a network of your own.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/connecting.h"
#include "runtime/collective/message/message_communicator.h"

namespace lockstep::collective::tcp {

// Connects this rank with all others. They may come later, in any order; but those that do not
// reach each other then try once: others may have managed. `cancelled`, if given, ends the wait as
// soon as it is true.
//
// Errors: kInvalidArgument    options that cannot be
//         kDeadlineExceeded   names the ranks that did not come
//         kUnavailable        a rank cannot be reached, or cannot listen; the message names it
//         kAborted            `cancelled`
StatusOr<std::unique_ptr<message::MessageCommunicator>> Connect(
    const message::NetworkOptions& options, Deadline deadline,
    const std::atomic<bool>* cancelled = nullptr);

}  // namespace lockstep::collective::tcp
