#include "runtime/collective/gloo/gloo_transport.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <gloo/transport/pair.h>

#include "runtime/collective/message/farewell.h"

namespace lockstep::collective::gloo {
namespace {

using message::Incoming;
using message::Outcome;
using message::Outgoing;
using std::chrono::milliseconds;

// No other message has this tag.
constexpr uint64_t kFarewellTag = ~uint64_t{0};
// No message at all has this one.
constexpr uint64_t kNoTag = kFarewellTag - 1;
// How often to ask again before giving up (see WaitFor).
constexpr int kDoubts = 5;
// Whoever takes longer to hear it learns from the connection's end alone.
constexpr milliseconds kFarewellTime{50};

}  // namespace

// A peer's last message, which is expected from the beginning on.
struct GlooTransport::Farewell {
  struct Words {
    uint32_t code = 0;
    uint32_t length = 0;
    char text[message::kFarewellBytes] = {};
  };
  std::unique_ptr<Words> words = {};
  std::unique_ptr<Pending> pending = {};  // null: of this rank
  std::unique_ptr<Pending> end = {};      // never comes: it is lost when the connection is
};

GlooTransport::GlooTransport(std::shared_ptr<const Network> network, message::Team team)
    : network_(std::move(network)),
      team_(std::move(team)),
      farewells_(team_.members.size()),
      nudges_(network_->nudger->Add([this] { Nudge(); })) {}

void GlooTransport::ExpectFarewells() {
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    Farewell& farewell = farewells_[static_cast<size_t>(r)];
    farewell.words = std::make_unique<Farewell::Words>();
    farewell.pending = NewPending(r, farewell.words.get(), sizeof(Farewell::Words));
    (void)farewell.pending->Receive(kFarewellTag);
    farewell.end = NewPending(r, farewell.words.get(), sizeof(Farewell::Words));
    (void)farewell.end->Receive(kNoTag);
  }
}

GlooTransport::~GlooTransport() {
  Leave(OkStatus());
  network_->nudger->Remove(nudges_);
}

void GlooTransport::Leave(const Status& why) {
  if (std::exchange(left_, true) || mesh_ == nullptr) return;
  Farewell::Words words;
  const std::string text = Message(why);
  words.code = static_cast<uint32_t>(why.code());
  words.length = static_cast<uint32_t>(text.copy(words.text, sizeof words.text));
  Pendings told;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    told.push_back(NewPending(r, &words, sizeof words));
    if (!told.back()->Send(kFarewellTag)) told.pop_back();  // it has gone before
  }
  const Deadline deadline = Deadline::After(kFarewellTime);
  const Nudger::Haste haste(*network_->nudger);
  for (const auto& one : told) {
    SetAwaited(one.get());
    while (one->Wait() == Pending::State::kUnderWay && !IsLost(one->peer()) &&
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
  Pending* const end = farewells_[static_cast<size_t>(peer)].end.get();
  if (end == nullptr) return true;  // it was never connected
  end->Nudge();
  return end->Wait() == Pending::State::kLost;
}

// Of one who is lost: his farewell has come, or is lost, too.
std::optional<Status> GlooTransport::FarewellOf(Rank peer) {
  const Farewell& farewell = farewells_[static_cast<size_t>(peer)];
  if (farewell.pending == nullptr || !IsLost(peer)) return std::nullopt;
  if (farewell.pending->Wait() != Pending::State::kDone) return std::nullopt;
  const Farewell::Words& words = *farewell.words;
  return message::ReadFarewell(words.code,
                               {words.text, std::min<size_t>(words.length, sizeof words.text)});
}

std::unique_ptr<Pending> GlooTransport::NewPending(Rank peer, const void* data,
                                                   size_t size_bytes) const {
  return std::make_unique<Pending>(*mesh_, peer, const_cast<void*>(data), size_bytes);
}

Pending::State GlooTransport::WaitFor(Pending& pending, Deadline deadline) {
  SetAwaited(&pending);
  // A nudge that comes just before the waiting hides that the message is done. Whoever is about to
  // give up asks again; that a nudge is as untimely each time is as good as impossible.
  int doubts = 0;
  std::optional<Nudger::Haste> haste;
  Pending::State state = Pending::State::kUnderWay;
  while (true) {
    const bool lost = IsLost(pending.peer());
    const bool is_over = lost || IsCancelled() || deadline.Expired();
    if (is_over && !haste.has_value()) haste.emplace(*network_->nudger);
    state = pending.Wait();
    if (state != Pending::State::kUnderWay) break;
    if (!is_over || ++doubts < kDoubts) continue;
    if (lost) state = Pending::State::kLost;
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
      case Pending::State::kDone:
        break;
      case Pending::State::kLost:
        lost.push_back(pending->peer());
        break;
      case Pending::State::kUnderWay:
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
  if (awaited_ != nullptr) awaited_->Nudge();
}

void GlooTransport::SetAwaited(Pending* pending) {
  std::lock_guard lock(mutex_);
  awaited_ = pending;
}

void GlooTransport::Nudge() {
  std::lock_guard lock(mutex_);
  if (awaited_ != nullptr) awaited_->Nudge();
}

StatusOr<std::unique_ptr<message::Transport>> GlooTransport::Split(
    absl::Span<const Rank> group_ranks, uint64_t tag, const std::atomic<bool>* cancelled,
    Deadline deadline) {
  return ConnectAll(network_, team_.Split(group_ranks, tag), cancelled, deadline);
}

}  // namespace lockstep::collective::gloo
