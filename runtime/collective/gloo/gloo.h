// The backend for CPU ranks on several hosts: messages over TCP, carried by Gloo.
//
// Gloo is used as a transport alone (its contexts, pairs and unbound buffers): operations, their
// checks and their reductions are those of runtime/collective/message. Every communicator has
// connections of its own, so that ending one leaves the others untouched.
// Nothing is encrypted or authenticated here: run it in a network of your own.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/connecting.h"
#include "runtime/collective/message/message_communicator.h"

namespace lockstep::collective::gloo {

// Connects this rank with all others. Sets SIGPIPE to be ignored, unless the program handles it.
// They may come later, in any order; but those that do not reach each other then try once: others
// may have managed. `cancelled`, if given, ends the wait as soon as it is true.
//
// Errors: kInvalidArgument    options that cannot be
//         kDeadlineExceeded   names the ranks that did not come
//         kUnavailable        a rank cannot be reached, or cannot listen (the address is none of
//                             its host, or too many files are open); the message names it
//         kAborted            `cancelled`
StatusOr<std::unique_ptr<message::MessageCommunicator>> Connect(
    const message::NetworkOptions& options, Deadline deadline,
    const std::atomic<bool>* cancelled = nullptr);

}  // namespace lockstep::collective::gloo
