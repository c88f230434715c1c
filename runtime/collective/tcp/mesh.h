// How the ranks of a team become connected, each with each.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/transport.h"
#include "runtime/collective/rendezvous.h"
#include "runtime/collective/tcp/connection.h"
#include "runtime/collective/tcp/protection.h"

namespace lockstep::collective::tcp {

// What all communicators of a process share.
struct Network {
  std::string address;  // of this host, where others reach it; empty: that of its name
  std::shared_ptr<Rendezvous> rendezvous;
  Protection protection = {};
};

// Each rank listens, tells the others where, and a number that nobody else knows, and a key; each
// connects with those before it. A connection that does not begin with the number, or, where it is
// encrypted, with another one that only its two ends can derive, is a stranger's, and closed.
//
// By the team's ranks; its own entry is no connection. One try: others may be connected, or not.
// Errors: kUnavailable (a rank cannot listen, or be reached; the message names it),
// kFailedPrecondition (two ranks do not agree whether to encrypt, or one cannot),
// kDeadlineExceeded, kAborted once `cancelled` (may be null) is true.
StatusOr<std::vector<Connection>> ConnectMesh(const Network& network, const message::Team& team,
                                              const std::atomic<bool>* cancelled,
                                              Deadline deadline);

}  // namespace lockstep::collective::tcp
