// How ranks become connected: each listens, tells the others where, and connects with all of them.
#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include <gloo/transport/address.h>
#include <gloo/transport/pair.h>

#include "runtime/collective/call.h"
#include "runtime/collective/gloo/gloo_transport.h"

namespace lockstep::collective::gloo {
namespace {

using std::chrono::milliseconds;

// The peers are there, and connect at the same time. Who does not manage tries again, with all.
constexpr milliseconds kLongestConnect{2000};
// Those that did not reach each other try again after this.
constexpr milliseconds kRetryPause{20};
// Names the exchange after a try, apart from the one before.
constexpr uint64_t kTried = 0x7472696564;
// Before what a rank tells another: where to connect, or why it cannot listen.
constexpr char kAddress = '@';
constexpr char kFailure = '!';

// Without the place in Gloo's sources that goes in front.
std::string WhatOf(const std::exception& error) {
  const std::string what = error.what();
  const size_t end = what.find("] ");
  return what.rfind('[', 0) == 0 && end != std::string::npos ? what.substr(end + 2) : what;
}

// Of the world. What was tried until the deadline.
Status NotConnected(Rank rank, const std::string& why) {
  return DeadlineExceeded("rank ", rank, " is not connected: ", why);
}

}  // namespace

StatusOr<std::unique_ptr<GlooTransport>> GlooTransport::ConnectAll(
    const std::shared_ptr<const Network>& network, const message::Team& team,
    const std::atomic<bool>* cancelled, Deadline deadline) {
  Status last;
  for (uint64_t number = 1;; ++number) {
    message::Team now = team;
    now.key = collective::Mix(team.key, number);
    auto transport = Connect(network, now, cancelled, deadline);
    // Who has connected must not begin before the others have, nor without them.
    const auto failed = ShareOutcome(*network->rendezvous, collective::Mix(now.key, kTried),
                                     team.members, transport.status(), cancelled, deadline);
    if (failed.ok() && !failed->has_value()) return transport;
    if (failed.ok()) {
      last = NotConnected((*failed)->rank, (*failed)->why);
    } else if (transport.status().code() == StatusCode::kUnavailable) {
      last =
          NotConnected(team.members[static_cast<size_t>(team.rank)], Message(transport.status()));
    } else if (transport.status().code() == StatusCode::kDeadlineExceeded) {
      last = transport.status();
    }
    if (failed.status().code() == StatusCode::kDeadlineExceeded || deadline.Expired()) {
      // There is no time for another try: why it took one says more.
      return last.ok() ? failed.status() : last;
    }
    LOCKSTEP_RETURN_IF_ERROR(failed.status());
    std::this_thread::sleep_for(kRetryPause);
  }
}

StatusOr<std::unique_ptr<GlooTransport>> GlooTransport::Connect(
    std::shared_ptr<const Network> network, message::Team team, const std::atomic<bool>* cancelled,
    Deadline deadline) {
  std::unique_ptr<GlooTransport> transport(new GlooTransport(std::move(network), std::move(team)));
  const StatusOr<std::vector<std::string>> listening = transport->Listen(deadline);
  const std::vector<std::string> mine =
      listening.ok() ? *listening : std::vector{kFailure + Message(listening.status())};
  LOCKSTEP_ASSIGN_OR_RETURN(
      std::vector<std::string> theirs,
      transport->network_->rendezvous->Exchange(transport->team_.key, transport->team_.members,
                                                mine, cancelled, deadline));
  LOCKSTEP_RETURN_IF_ERROR(listening.status());
  for (size_t member = 0; member < theirs.size(); ++member) {
    std::string& words = theirs[member];
    const bool has_address = !words.empty() && words.front() == kAddress;
    if (!words.empty()) words.erase(0, 1);
    if (!has_address) {
      return Unavailable("rank ", transport->team_.members[member], " ", words);
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(transport->ConnectPairs(theirs, cancelled));
  return transport;
}

StatusOr<std::vector<std::string>> GlooTransport::Listen(Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(network_->status);
  std::vector<std::string> addresses(static_cast<size_t>(size()), {kAddress});
  try {
    mesh_ = network_->device->createContext(rank(), size());
    // Connecting takes five of these at most, and no more than half of the time that is left: then
    // the others can still be told how it went.
    const auto half = std::chrono::ceil<milliseconds>(deadline.Remaining()) / 2;
    mesh_->setTimeout(std::clamp(half, milliseconds(5), kLongestConnect) / 5);
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      const std::vector<char> address = mesh_->createPair(r)->address().bytes();
      addresses[static_cast<size_t>(r)].append(address.begin(), address.end());
    }
  } catch (const std::exception& error) {
    return Unavailable("cannot listen for the other ranks: ", WhatOf(error));
  }
  return addresses;
}

Status GlooTransport::ConnectPairs(const std::vector<std::string>& addresses,
                                   const std::atomic<bool>* cancelled) {
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    if (cancelled != nullptr && *cancelled) return Aborted("connecting was cancelled");
    const std::string& address = addresses[static_cast<size_t>(r)];
    try {
      mesh_->getPair(r)->connect({address.begin(), address.end()});
    } catch (const std::exception& error) {
      return Unavailable("rank ", team_.members[static_cast<size_t>(r)],
                         " cannot be reached: ", WhatOf(error));
    }
  }
  ExpectFarewells();
  return OkStatus();
}

}  // namespace lockstep::collective::gloo
