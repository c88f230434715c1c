// The backend for CPU ranks on several hosts: messages over TCP, carried by Gloo.
//
// Gloo is used as a transport alone (its contexts, pairs and unbound buffers): operations, their
// checks and their reductions are those of runtime/collective/message. Every communicator has
// connections of its own, so that ending one leaves the others untouched.
// Nothing is encrypted or authenticated here: run it in a network of your own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/message_communicator.h"
#include "runtime/collective/rendezvous.h"

namespace lockstep::collective::gloo {

struct Options {
  Rank rank = 0;
  int size = 1;
  // Tells worlds apart that meet at one rendezvous: the same on all ranks.
  uint64_t world = 0;
  std::shared_ptr<Rendezvous> rendezvous;
  // An address of this host, which the others can reach, to listen at; empty: that of its name.
  std::string address;
};

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
    const Options& options, Deadline deadline, const std::atomic<bool>* cancelled = nullptr);

}  // namespace lockstep::collective::gloo
