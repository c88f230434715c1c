#include "runtime/collective/tcp/tcp_transport.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "runtime/collective/message/connecting.h"

namespace lockstep::collective::tcp {
namespace {

using message::Incoming;
using message::Outcome;
using message::Outgoing;

// Who waits looks around for so long before it sleeps, and lets others have the processor
// meanwhile: to be woken takes longer than a message between neighbours does.
constexpr std::chrono::microseconds kLookAround{200};
// A peer that takes longer to hear why this rank leaves learns from the connection's end alone.
constexpr std::chrono::milliseconds kLeavingTime{50};
constexpr std::chrono::microseconds kLeavingPause{200};

}  // namespace

TcpTransport::TcpTransport(std::shared_ptr<const Network> network, message::Team team,
                           std::vector<Connection> connections, Socket cancel)
    : network_(std::move(network)),
      team_(std::move(team)),
      connections_(std::move(connections)),
      cancel_(std::move(cancel)) {}

StatusOr<std::unique_ptr<message::Transport>> TcpTransport::Connect(
    std::shared_ptr<const Network> network, const message::Team& team,
    const std::atomic<bool>* cancelled, Deadline deadline) {
  // Before the others count this rank as connected.
  Socket cancel(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!cancel.is_open()) return Unavailable("no descriptor is left: ", std::strerror(errno));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Connection> connections,
                            ConnectMesh(*network, team, cancelled, deadline));
  return std::unique_ptr<message::Transport>(
      new TcpTransport(std::move(network), team, std::move(connections), std::move(cancel)));
}

TcpTransport::~TcpTransport() { Leave(OkStatus()); }

Outcome TcpTransport::Run(absl::Span<const Outgoing> outgoing, absl::Span<const Incoming> incoming,
                          Deadline deadline) {
  if (left_) return {Outcome::Kind::kAborted};
  std::vector<Rank> peers;
  for (const Incoming& in : incoming) {
    With(in.from).Expect(in.tag, in.data, in.size_bytes);
    peers.push_back(in.from);
  }
  for (const Outgoing& out : outgoing) {
    With(out.to).Send(out.tag, out.data, out.size_bytes);
    peers.push_back(out.to);
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  const Outcome::Kind kind = MoveMessages(peers, deadline);
  if (kind == Outcome::Kind::kDone) return {};
  for (Connection& connection : connections_) connection.Forget();
  if (kind == Outcome::Kind::kAborted) return {kind};
  return {kind, std::move(peers)};
}

Outcome::Kind TcpTransport::MoveMessages(std::vector<Rank>& peers, Deadline deadline) {
  Deadline sleep = Deadline::After(kLookAround);
  while (true) {
    if (cancelled_.load(std::memory_order_acquire)) return Outcome::Kind::kAborted;
    bool moved = false;
    bool any_lost = false;
    peers.erase(std::remove_if(peers.begin(), peers.end(),
                               [&](Rank peer) {
                                 Connection& connection = With(peer);
                                 moved |= connection.Progress();
                                 if (!connection.HasWork()) return true;
                                 any_lost |= connection.is_lost();
                                 return false;
                               }),
                peers.end());
    if (any_lost) {
      peers.erase(std::remove_if(peers.begin(), peers.end(),
                                 [&](Rank peer) { return !With(peer).is_lost(); }),
                  peers.end());
      return Outcome::Kind::kLost;
    }
    if (peers.empty()) return Outcome::Kind::kDone;
    if (deadline.Expired()) return Outcome::Kind::kExpired;
    if (moved) {
      sleep = Deadline::After(kLookAround);
    } else if (sleep.Expired()) {
      Sleep(peers, deadline);
    } else {
      // The peer may need this processor.
      sched_yield();
    }
  }
}

void TcpTransport::Sleep(const std::vector<Rank>& peers, Deadline deadline) {
  std::vector<pollfd> awaited;
  for (const Rank peer : peers) awaited.push_back({With(peer).fd(), With(peer).Events(), 0});
  awaited.push_back({cancel_.fd(), POLLIN, 0});
  if (poll(awaited.data(), awaited.size(), deadline.RemainingMillis()) <= 0) return;
  for (size_t i = 0; i < peers.size(); ++i) With(peers[i]).NoteEvents(awaited[i].revents);
}

void TcpTransport::Cancel() {
  cancelled_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  // It never fails: the number is far from its greatest.
  (void)!write(cancel_.fd(), &one, sizeof one);
}

void TcpTransport::Leave(const Status& why) {
  if (std::exchange(left_, true)) return;
  std::vector<Connection*> told;
  for (Connection& connection : connections_) {
    connection.Forget();
    connection.AddFarewell(why);
    told.push_back(&connection);
  }
  const Deadline deadline = Deadline::After(kLeavingTime);
  while (true) {
    told.erase(std::remove_if(told.begin(), told.end(),
                              [](Connection* connection) { return connection->SendFarewell(); }),
               told.end());
    if (told.empty() || deadline.Expired()) break;
    // Nothing tells when the network has taken something.
    std::this_thread::sleep_for(kLeavingPause);
  }
  for (Connection& connection : connections_) connection.Close();
}

std::optional<Status> TcpTransport::LeaveReasonOf(Rank peer) {
  Connection& connection = With(peer);
  connection.Forget();
  const std::optional<Status> leave_reason = connection.LeaveReason();
  if (leave_reason.has_value() || !connection.is_forged()) return leave_reason;
  return DataLoss("what came from rank ", team_.members[static_cast<size_t>(peer)], " to rank ",
                  team_.members[static_cast<size_t>(team_.rank)],
                  " is not what it has sent, or not in its order: something between the hosts of "
                  "these two has changed, repeated or left out data, which was not taken");
}

StatusOr<std::unique_ptr<message::Transport>> TcpTransport::Split(
    absl::Span<const Rank> group_ranks, uint64_t tag, const std::atomic<bool>* cancelled,
    Deadline deadline) {
  return message::ConnectTogether(
      *network_->rendezvous, team_.Split(group_ranks, tag),
      [&](const message::Team& team) { return Connect(network_, team, cancelled, deadline); },
      cancelled, deadline);
}

}  // namespace lockstep::collective::tcp
