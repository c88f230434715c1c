// The backend for CPU ranks on several hosts: messages over TCP, with nothing between a rank and
// its socket.
//
// Operations, their checks and their reductions are those of runtime/collective/message. Every
// communicator has connections of its own, so that ending one leaves the others untouched. A
// connection begins with a number that only the ranks know, because they were told it over the
// rendezvous. What follows is encrypted and authenticated as far as `Protection` says
// (docs/adr/0036-encryption-between-ranks.md); else it goes as it is: only in a network of your
// own.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/connecting.h"
#include "runtime/collective/message/message_communicator.h"
#include "runtime/collective/tcp/protection.h"

namespace lockstep::collective::tcp {

// Connects this rank with all others. They may come later, in any order; but those that do not
// reach each other then try once: others may have managed. `cancelled`, if given, ends the wait as
// soon as it is true.
//
// Errors: kInvalidArgument    options that cannot be
//         kDeadlineExceeded   names the ranks that did not come
//         kUnavailable        a rank cannot be reached, or cannot listen; the message names it
//         kFailedPrecondition two ranks do not agree whether to encrypt, or one cannot
//         kAborted            `cancelled`
StatusOr<std::unique_ptr<message::MessageCommunicator>> Connect(
    const message::NetworkOptions& options, const Protection& protection, Deadline deadline,
    const std::atomic<bool>* cancelled = nullptr);

// OK if this host has what encryption needs. Errors: kFailedPrecondition, with what to install.
Status CanEncrypt();

}  // namespace lockstep::collective::tcp
