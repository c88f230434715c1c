#include "runtime/collective/gloo/gloo_transport.h"

#include <gloo/transport/address.h>
#include <gloo/transport/pair.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "runtime/collective/call.h"
#include "runtime/collective/message/connecting.h"
#include "runtime/collective/message/transport.h"

namespace lockstep::collective::gloo {
namespace {

using message::Incoming;
using message::Outcome;
using message::Outgoing;
using std::chrono::milliseconds;

// No other message has this tag.
constexpr uint64_t kLeaveReasonTag = ~uint64_t{0};
// No message at all has this one.
constexpr uint64_t kNoTag = kLeaveReasonTag - 1;
// How often to ask again before giving up (see WaitFor).
constexpr int kDoubts = 5;
// A peer that takes longer to hear it learns from the connection's end alone.
constexpr milliseconds kLeaveReasonTime{50};

}  // namespace

// A peer's last message, which is expected from the beginning on.
struct GlooTransport::LeaveReason {
  struct Words {
    uint32_t code = 0;
    uint32_t length = 0;
    char text[message::kLeaveReasonBytes] = {};
  };
  std::unique_ptr<Words> words = {};
  std::unique_ptr<PendingMessage> pending = {};  // null: of this rank
  std::unique_ptr<PendingMessage> end = {};      // never comes: it is lost when the connection is
};

GlooTransport::GlooTransport(std::shared_ptr<const Network> network, message::Team team)
    : network_(std::move(network)),
      team_(std::move(team)),
      leave_reasons_(team_.members.size()),
      waker_handle_(network_->waker->Add([this] { Wake(); })) {}

void GlooTransport::ExpectLeaveReasons() {
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    LeaveReason& leave_reason = leave_reasons_[static_cast<size_t>(r)];
    leave_reason.words = std::make_unique<LeaveReason::Words>();
    leave_reason.pending = NewPending(r, leave_reason.words.get(), sizeof(LeaveReason::Words));
    (void)leave_reason.pending->Receive(kLeaveReasonTag);
    leave_reason.end = NewPending(r, leave_reason.words.get(), sizeof(LeaveReason::Words));
    (void)leave_reason.end->Receive(kNoTag);
  }
}

GlooTransport::~GlooTransport() {
  Leave(OkStatus());
  network_->waker->Remove(waker_handle_);
}

void GlooTransport::Leave(const Status& why) {
  if (std::exchange(left_, true) || mesh_ == nullptr) return;
  LeaveReason::Words words;
  const std::string text = Message(why);
  words.code = static_cast<uint32_t>(why.code());
  words.length = static_cast<uint32_t>(text.copy(words.text, sizeof words.text));
  Pendings told;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    told.push_back(NewPending(r, &words, sizeof words));
    if (!told.back()->Send(kLeaveReasonTag)) told.pop_back();  // it has gone before
  }
  const Deadline deadline = Deadline::After(kLeaveReasonTime);
  const PeriodicWaker::Boost boost(*network_->waker);
  for (const auto& one : told) {
    SetAwaited(one.get());
    while (one->Wait() == PendingMessage::State::kUnderWay && !IsLost(one->peer()) &&
           !deadline.Expired()) {
    }
    SetAwaited(nullptr);
  }
  told.clear();
  // Not Pair::close(), which takes back what is still on its way: peers may have yet to receive
  // what this rank has sent last.
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) mesh_->getPair(r).reset();
  }
}

bool GlooTransport::IsLost(Rank peer) const {
  PendingMessage* const end = leave_reasons_[static_cast<size_t>(peer)].end.get();
  if (end == nullptr) return true;  // it was never connected
  end->Wake();
  return end->Wait() == PendingMessage::State::kLost;
}

// None before `peer` is lost: then the reason that it gave for leaving has come, or is lost, too.
std::optional<Status> GlooTransport::LeaveReasonOf(Rank peer) {
  const LeaveReason& leave_reason = leave_reasons_[static_cast<size_t>(peer)];
  if (leave_reason.pending == nullptr || !IsLost(peer)) return std::nullopt;
  if (leave_reason.pending->Wait() != PendingMessage::State::kDone) return std::nullopt;
  const LeaveReason::Words& words = *leave_reason.words;
  return message::ReadLeaveReason(words.code,
                                  {words.text, std::min<size_t>(words.length, sizeof words.text)});
}

std::unique_ptr<PendingMessage> GlooTransport::NewPending(Rank peer, const void* data,
                                                          size_t size_bytes) const {
  return std::make_unique<PendingMessage>(*mesh_, peer, const_cast<void*>(data), size_bytes);
}

PendingMessage::State GlooTransport::WaitFor(PendingMessage& pending, Deadline deadline) {
  SetAwaited(&pending);
  // A wake-up that comes just before the waiting hides that the message is done. So the thread asks
  // again before it gives up; a wake-up as untimely each time is as good as impossible.
  int doubts = 0;
  std::optional<PeriodicWaker::Boost> boost;
  PendingMessage::State state = PendingMessage::State::kUnderWay;
  while (true) {
    const bool lost = IsLost(pending.peer());
    const bool is_over = lost || IsCancelled() || deadline.Expired();
    if (is_over && !boost.has_value()) boost.emplace(*network_->waker);
    state = pending.Wait();
    if (state != PendingMessage::State::kUnderWay) break;
    if (!is_over || ++doubts < kDoubts) continue;
    if (lost) state = PendingMessage::State::kLost;
    break;
  }
  SetAwaited(nullptr);
  return state;
}

Outcome GlooTransport::Run(absl::Span<const Outgoing> outgoing, absl::Span<const Incoming> incoming,
                           Deadline deadline) {
  Pendings pendings;
  std::vector<Rank> lost;
  std::vector<Rank> late;
  if (left_) return {Outcome::Kind::kAborted};
  for (const Incoming& in : incoming) {
    pendings.push_back(NewPending(in.from, in.data, in.size_bytes));
    if (!pendings.back()->Receive(in.tag)) lost.push_back(in.from);
  }
  for (const Outgoing& out : outgoing) {
    pendings.push_back(NewPending(out.to, out.data, out.size_bytes));
    if (!pendings.back()->Send(out.tag)) lost.push_back(out.to);
  }
  for (const auto& pending : pendings) {
    // When one has failed, the rest is only looked at.
    const bool failed = !lost.empty() || !late.empty();
    switch (WaitFor(*pending, failed ? Deadline::After({}) : deadline)) {
      case PendingMessage::State::kDone:
        break;
      case PendingMessage::State::kLost:
        lost.push_back(pending->peer());
        break;
      case PendingMessage::State::kUnderWay:
        late.push_back(pending->peer());
        break;
    }
    if (IsCancelled()) return {Outcome::Kind::kAborted};
  }
  if (lost.empty() && late.empty()) return {};
  Outcome outcome = lost.empty() ? Outcome{Outcome::Kind::kExpired, std::move(late)}
                                 : Outcome{Outcome::Kind::kLost, std::move(lost)};
  std::sort(outcome.ranks.begin(), outcome.ranks.end());
  outcome.ranks.erase(std::unique(outcome.ranks.begin(), outcome.ranks.end()), outcome.ranks.end());
  return outcome;
}

bool GlooTransport::IsCancelled() {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

void GlooTransport::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (awaited_ != nullptr) awaited_->Wake();
}

void GlooTransport::SetAwaited(PendingMessage* pending) {
  std::lock_guard lock(mutex_);
  awaited_ = pending;
}

void GlooTransport::Wake() {
  std::lock_guard lock(mutex_);
  if (awaited_ != nullptr) awaited_->Wake();
}

StatusOr<std::unique_ptr<message::Transport>> GlooTransport::Split(
    absl::Span<const Rank> group_ranks, uint64_t tag, const std::atomic<bool>* cancelled,
    Deadline deadline) {
  return message::ConnectTogether(
      *network_->rendezvous, team_.Split(group_ranks, tag),
      [&](const message::Team& team) { return Connect(network_, team, cancelled, deadline); },
      cancelled, deadline);
}

// How ranks become connected: each listens, tells the others where, and connects with all of them.
namespace {

// The peers are there, and connect at the same time. Who does not manage tries again, with all.
constexpr milliseconds kLongestConnect{2000};

// Without the place in Gloo's sources that goes in front.
std::string WhatOf(const std::exception& error) {
  const std::string what = error.what();
  const size_t end = what.find("] ");
  return what.rfind('[', 0) == 0 && end != std::string::npos ? what.substr(end + 2) : what;
}

}  // namespace

StatusOr<std::unique_ptr<message::Transport>> GlooTransport::Connect(
    std::shared_ptr<const Network> network, message::Team team, const std::atomic<bool>* cancelled,
    Deadline deadline) {
  std::unique_ptr<GlooTransport> transport(new GlooTransport(std::move(network), std::move(team)));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<std::string> theirs,
      message::ExchangePlaces(*transport->network_->rendezvous, transport->team_,
                              transport->Listen(deadline), cancelled, deadline));
  LOCKSTEP_RETURN_IF_ERROR(transport->ConnectPairs(theirs, cancelled));
  return transport;
}

StatusOr<std::vector<std::string>> GlooTransport::Listen(Deadline deadline) {
  LOCKSTEP_RETURN_IF_ERROR(network_->status);
  std::vector<std::string> addresses(static_cast<size_t>(size()));
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
  ExpectLeaveReasons();
  return OkStatus();
}

}  // namespace lockstep::collective::gloo
