#include "runtime/collective/mpi/mpi_transport.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "runtime/collective/message/transport.h"

namespace lockstep::collective::mpi {
namespace {

using message::Incoming;
using message::Outcome;
using message::Outgoing;
using std::chrono::microseconds;

// What ranks tell each other at the rendezvous.
struct Address {
  uint64_t job = 0;
  uint64_t process = 0;
  uint64_t port = 0;
};

bool NeedsPermission(size_t size_bytes) { return size_bytes > Frames::kPayloadBytes; }

// Between two looks: MPI has no wait that ends when it is cancelled.
class Pause {
 public:
  void After(bool progress) {
    if (progress) {
      since_ = Deadline::Clock::now();
      return;
    }
    const auto idle = Deadline::Clock::now() - since_;
    if (idle < kAwake) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(idle < kAlert ? microseconds(50) : microseconds(500));
    }
  }

 private:
  static constexpr microseconds kAwake{200};
  static constexpr microseconds kAlert{100'000};

  Deadline::Clock::time_point since_ = Deadline::Clock::now();
};

}  // namespace

MpiTransport::MpiTransport(Job& job, std::shared_ptr<Rendezvous> rendezvous, message::Team team)
    : frames_(job.frames()),
      job_(job),
      rendezvous_(std::move(rendezvous)),
      team_(std::move(team)),
      peers_(team_.members.size()) {
  std::lock_guard lock(frames_.mutex());
  port_ = frames_.Open(*this);
}

StatusOr<std::unique_ptr<MpiTransport>> MpiTransport::Connect(
    Job& job, std::shared_ptr<Rendezvous> rendezvous, message::Team team,
    const std::atomic<bool>* cancelled, Deadline deadline) {
  std::unique_ptr<MpiTransport> transport(
      new MpiTransport(job, std::move(rendezvous), std::move(team)));
  const Address mine{job.id(), static_cast<uint64_t>(job.process()), transport->port_};
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<std::string> theirs,
      transport->rendezvous_->Exchange(
          transport->team_.key, transport->team_.members,
          {std::string(reinterpret_cast<const char*>(&mine), sizeof mine)}, cancelled, deadline));
  LOCKSTEP_RETURN_IF_ERROR(transport->FindPeers(theirs));
  return transport;
}

Status MpiTransport::FindPeers(const std::vector<std::string>& addresses) {
  std::vector<Peer> peers(addresses.size());
  for (size_t r = 0; r < peers.size(); ++r) {
    Address address;
    if (addresses[r].size() != sizeof address) {
      return Internal("rank ", team_.members[r], " does not tell where it is in its MPI job");
    }
    std::memcpy(&address, addresses[r].data(), sizeof address);
    if (address.job != job_.id() || address.process >= static_cast<uint64_t>(job_.size())) {
      return FailedPrecondition("rank ", team_.members[r],
                                " was not started in the same MPI job as rank ",
                                team_.members[static_cast<size_t>(rank())],
                                "; start all workers with one mpirun or srun");
    }
    peers[r].process = static_cast<int>(address.process);
    peers[r].port = address.port;
  }
  std::lock_guard lock(frames_.mutex());
  for (size_t r = 0; r < peers.size(); ++r) {
    peers_[r].process = peers[r].process;
    peers_[r].port = peers[r].port;
  }
  return OkStatus();
}

MpiTransport::~MpiTransport() { Leave(OkStatus()); }

void MpiTransport::Leave(const Status& why) {
  if (std::exchange(left_, true)) return;
  const std::string text = Message(why).substr(0, message::kLeaveReasonBytes);
  std::lock_guard lock(frames_.mutex());
  for (Rank r = 0; r < size(); ++r) {
    if (r == rank() || peers_[static_cast<size_t>(r)].process < 0) continue;
    Send(r, Frame::Kind::kLeave, static_cast<uint64_t>(why.code()), 0,
         {reinterpret_cast<const std::byte*>(text.data()), text.size()});
  }
  frames_.Close(port_);
}

std::optional<Status> MpiTransport::LeaveReasonOf(Rank peer) {
  std::lock_guard lock(frames_.mutex());
  // The peer need not have ended: nothing comes from any rank any more.
  if (!frames_.failure().ok()) return frames_.failure();
  return peers_[static_cast<size_t>(peer)].leave_reason;
}

void MpiTransport::Send(Rank to, Frame::Kind kind, uint64_t tag, size_t offset_bytes,
                        absl::Span<const std::byte> payload) {
  const Peer& peer = peers_[static_cast<size_t>(to)];
  frames_.SendTo(peer.process,
                 {.port = peer.port,
                  .reply_port = port_,
                  .kind = kind,
                  .from = static_cast<uint32_t>(rank()),
                  .tag = tag,
                  .offset_bytes = offset_bytes},
                 payload, peer.on_its_way);
}

// Peers may be quicker than the rendezvous: then who sends is not known yet.
void MpiTransport::TakeFrame(int process, const Frame& frame, absl::Span<const std::byte> payload) {
  if (frame.kind == Frame::Kind::kGone) {
    for (Peer& peer : peers_) peer.left |= peer.process == process && peer.port == frame.tag;
    return;
  }
  if (frame.from >= peers_.size()) return;
  switch (frame.kind) {
    case Frame::Kind::kData:
      return TakeData(frame, payload);
    case Frame::Kind::kReady:
      wanted_.insert({static_cast<Rank>(frame.from), frame.tag});
      return;
    case Frame::Kind::kLeave: {
      Peer& peer = peers_[frame.from];
      peer.left = true;
      peer.leave_reason = message::ReadLeaveReason(
          frame.tag, {reinterpret_cast<const char*>(payload.data()), payload.size()});
      return;
    }
    case Frame::Kind::kGone:
      return;
  }
}

void MpiTransport::TakeData(const Frame& frame, absl::Span<const std::byte> payload) {
  const Name name{static_cast<Rank>(frame.from), frame.tag};
  const auto found = awaited_.find(name);
  if (found == awaited_.end()) {
    // A longer one was awaited, by a Run() that has failed.
    if (frame.offset_bytes != 0 || NeedsPermission(payload.size())) return;
    early_[name].assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    return;
  }
  Arriving& arriving = found->second;
  if (payload.size() > arriving.size_bytes - arriving.received_bytes ||
      frame.offset_bytes != arriving.received_bytes) {
    peers_[frame.from].left = true;  // it talks nonsense
    return;
  }
  std::memcpy(arriving.data + arriving.received_bytes, payload.data(), payload.size());
  arriving.received_bytes += payload.size();
  if (arriving.received_bytes == arriving.size_bytes) awaited_.erase(found);
}

void MpiTransport::Await(const Incoming& incoming) {
  const Name name{incoming.from, incoming.tag};
  awaited_[name] = {static_cast<std::byte*>(incoming.data), incoming.size_bytes};
  if (NeedsPermission(incoming.size_bytes)) {
    Send(incoming.from, Frame::Kind::kReady, incoming.tag, 0, {});
    return;
  }
  const auto early = early_.find(name);
  if (early == early_.end()) return;
  const std::string bytes = std::move(early->second);
  early_.erase(early);
  TakeData({.from = static_cast<uint32_t>(incoming.from), .tag = incoming.tag},
           {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

bool MpiTransport::Push(std::vector<Leaving>& leaving) {
  bool any = false;
  // A piece of each in turn, so that all peers have something to do.
  for (bool more = true; more && frames_.HasRoom();) {
    more = false;
    for (Leaving& one : leaving) {
      const Outgoing& out = one.message;
      if (one.sent_bytes == out.size_bytes || !frames_.HasRoom()) continue;
      if (peers_[static_cast<size_t>(out.to)].left) continue;
      if (NeedsPermission(out.size_bytes) && wanted_.count({out.to, out.tag}) == 0) continue;
      const size_t bytes = std::min(out.size_bytes - one.sent_bytes, Frames::kPayloadBytes);
      Send(out.to, Frame::Kind::kData, out.tag, one.sent_bytes,
           {static_cast<const std::byte*>(out.data) + one.sent_bytes, bytes});
      one.sent_bytes += bytes;
      if (one.sent_bytes == out.size_bytes) wanted_.erase({out.to, out.tag});
      any = more = true;
    }
  }
  return any;
}

Outcome MpiTransport::Look(const std::vector<Leaving>& leaving) const {
  std::set<Rank> late;
  for (const auto& [name, arriving] : awaited_) late.insert(name.first);
  for (const Leaving& one : leaving) {
    if (one.sent_bytes != one.message.size_bytes) late.insert(one.message.to);
  }
  std::vector<Rank> lost;
  for (const Rank r : late) {
    if (peers_[static_cast<size_t>(r)].left || !frames_.failure().ok()) lost.push_back(r);
  }
  if (!lost.empty()) return {Outcome::Kind::kLost, std::move(lost)};
  // Who has left takes what was sent to it, or has no use for it.
  for (Rank r = 0; r < size(); ++r) {
    const Peer& peer = peers_[static_cast<size_t>(r)];
    if (*peer.on_its_way > 0 && !peer.left && frames_.failure().ok()) late.insert(r);
  }
  if (late.empty()) return {};
  return {Outcome::Kind::kExpired, {late.begin(), late.end()}};
}

Outcome MpiTransport::Run(absl::Span<const Outgoing> outgoing, absl::Span<const Incoming> incoming,
                          Deadline deadline) {
  if (left_) return {Outcome::Kind::kAborted};
  std::vector<Leaving> leaving;
  for (const Outgoing& out : outgoing) leaving.push_back({out});
  std::unique_lock lock(frames_.mutex());
  for (const Incoming& in : incoming) Await(in);
  // No frame is written to their memory from then on.
  const absl::Cleanup forget = [&] { awaited_.clear(); };
  for (Pause pause;;) {
    bool progress = Push(leaving);
    progress |= frames_.Progress();
    if (cancelled_) return {Outcome::Kind::kAborted};
    Outcome outcome = Look(leaving);
    if (outcome.kind != Outcome::Kind::kExpired || deadline.Expired()) return outcome;
    lock.unlock();
    pause.After(progress);
    lock.lock();
  }
}

StatusOr<std::unique_ptr<message::Transport>> MpiTransport::Split(
    absl::Span<const Rank> group_ranks, uint64_t tag, const std::atomic<bool>* cancelled,
    Deadline deadline) {
  return Connect(job_, rendezvous_, team_.Split(group_ranks, tag), cancelled, deadline);
}

}  // namespace lockstep::collective::mpi
