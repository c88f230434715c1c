// What the ranks of a team do together before they are connected.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/collective/message/transport.h"
#include "runtime/collective/rendezvous.h"

namespace lockstep::collective::message {

// How a rank finds the others over a network.
struct NetworkOptions {
  Rank rank = 0;
  int size = 1;
  // Tells worlds apart that meet at one rendezvous: the same on all ranks.
  uint64_t world = 0;
  std::shared_ptr<Rendezvous> rendezvous;
  // An address of this host, which the others can reach, to listen at; empty: that of its name.
  std::string address;
};

// kInvalidArgument for options that cannot be.
Status CheckOptions(const NetworkOptions& options);

// OK if this machine has TCP to work with, else kUnavailable with what is missing.
Status TcpAvailable();

// All members tell each other where they can be reached: `mine` for each member, or a single one
// for all. Returns what they have told this rank, by member. A rank that cannot even listen tells
// the others why: that is kUnavailable on all of them, with its rank. The errors of
// Rendezvous::Exchange().
StatusOr<std::vector<std::string>> ExchangePlaces(Rendezvous& rendezvous, const Team& team,
                                                  const StatusOr<std::vector<std::string>>& mine,
                                                  const std::atomic<bool>* cancelled,
                                                  Deadline deadline);

// One try of this rank to connect with the members of `team`, whose key is another for each try.
using ConnectOnce = std::function<StatusOr<std::unique_ptr<Transport>>(const Team& team)>;

// Connects all members, or none: those that do not reach each other try again, together, until the
// deadline. kDeadlineExceeded says what kept them from it.
StatusOr<std::unique_ptr<Transport>> ConnectTogether(Rendezvous& rendezvous, const Team& team,
                                                     const ConnectOnce& connect,
                                                     const std::atomic<bool>* cancelled,
                                                     Deadline deadline);

}  // namespace lockstep::collective::message
