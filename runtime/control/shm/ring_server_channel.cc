#include "runtime/control/shm/ring_server_channel.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace lockstep::control {
namespace {

// Between two looks at the host, which are system calls, while peers by ring are waited for or have
// something to say; and between two turns of the sockets before the rings.
constexpr unsigned kLookEvery = 32;
constexpr unsigned kSocketsFirstEvery = 16;
// Clients by socket want as much as those by ring.
constexpr unsigned kClientSocketsFirstEvery = 2;
// Messages of sockets that are looked at in one turn, if nothing is to be handed out.
constexpr int kMostBySocket = 64;
// What a client that has ended has sent by socket comes within this time.
constexpr std::chrono::seconds kForLastWords{1};
// Messages that wait for a client which does not read: as many as its socket would hold.
constexpr size_t kMostWaiting = 10'000;

std::string AddressOf(pid_t pid) {
  // Of another PID namespace, as in another container, the kernel tells none.
  return pid == 0 ? "a process of this user" : "process " + std::to_string(pid) + " of this user";
}

}  // namespace

RingServerChannel::Slot::Slot(RingHost::Mapped mapped, std::shared_ptr<RingOutput> said,
                              uint64_t answer_words)
    : peer(std::move(mapped.peer)),
      pid(mapped.pid),
      pages(std::move(mapped.answers)),
      answers(pages.data(), answer_words),
      output(std::move(said)),
      reader(answers, output->memory().taken(mapped.place)),
      waker(answers.header().sleep) {}

StatusOr<std::unique_ptr<RingServerChannel>> RingServerChannel::Create(
    std::unique_ptr<ServerChannel>&& sockets, Peers peers, int slots,
    std::chrono::milliseconds longest_gap) {
  const RingSizes words = peers == Peers::kWorkers ? kWorkerRings : kClientRings;
  // Also where each peer has its own: what this host lacks is known from the beginning.
  LOCKSTEP_ASSIGN_OR_RETURN(std::shared_ptr<const BroadcastPages> pages,
                            BroadcastPages::Create(slots, words.broadcast));
  std::shared_ptr<RingOutput> shared;
  if (peers == Peers::kWorkers) {
    shared = std::make_shared<RingOutput>(pages);
  } else {
    pages.reset();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<RingHost> host,
                            RingHost::Create(slots, words, std::move(pages)));
  LOCKSTEP_RETURN_IF_ERROR(host->WatchToo(sockets->wait_fd()));
  return std::unique_ptr<RingServerChannel>(
      new RingServerChannel(std::move(sockets), std::move(host), std::move(shared), longest_gap));
}

RingServerChannel::RingServerChannel(std::unique_ptr<ServerChannel> sockets,
                                     std::unique_ptr<RingHost> host,
                                     std::shared_ptr<RingOutput> shared,
                                     std::chrono::milliseconds longest_gap)
    : sockets_(std::move(sockets)),
      host_(std::move(host)),
      longest_gap_(longest_gap),
      shared_(std::move(shared)),
      slots_(static_cast<size_t>(host_->slots())) {}

RingServerChannel::~RingServerChannel() = default;

template <typename Do>
void RingServerChannel::ForEachOutput(Do&& what) {
  if (shared_ != nullptr) {
    what(*shared_);
    return;
  }
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot != nullptr) what(*slot->output);
  }
}

// --- Who has a ring.

std::optional<RingOffer> RingServerChannel::OfferTo(const PeerName& peer) {
  // It may have mapped its ring a moment ago.
  LookAtHost();
  const bool has_ring = std::any_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
    return slot != nullptr && slot->peer == peer;
  });
  if (has_ring) return std::nullopt;
  return host_->OfferTo(peer);
}

void RingServerChannel::GiveUp(const PeerName& peer) {
  host_->Withdraw(peer);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] != nullptr && slots_[slot]->peer == peer) Free(static_cast<int>(slot));
  }
}

void RingServerChannel::LookAtHost() {
  RingHost::News news = host_->Look();
  sockets_are_due_ = sockets_are_due_ || news.others;
  if (is_asleep_ && news.wakes) {
    // Another thread sleeps, and will not see these any more: peers are to wake it again.
    ForEachOutput([](RingOutput& output) {
      output.memory().header().sleep.End();
      output.memory().header().sleep.Begin();
    });
  }
  for (RingHost::Mapped& mapped : news.mapped) {
    const int slot = mapped.slot;
    std::shared_ptr<RingOutput> output = shared_;
    if (output == nullptr) {
      output = std::make_shared<RingOutput>(mapped.broadcast);
      if (is_asleep_) output->memory().header().sleep.Begin();
    }
    slots_[static_cast<size_t>(slot)] =
        std::make_unique<Slot>(std::move(mapped), std::move(output), host_->words().answers);
    mapped_.push_back(slot);
  }
  for (const int slot : news.ended) {
    if (slots_[static_cast<size_t>(slot)] == nullptr) continue;
    Slot& ended = at(slot);
    ended.output->writer().RemoveReader(slot);
    // What it has said last, such as why it ends, is read yet. A client may have said some of it by
    // socket, which takes a while.
    ended.has_ended = ended.HasInput() || IsLateWith(ended);
    ended.ended_at = Deadline::Clock::now();
    if (!ended.has_ended) Free(slot);
  }
  NoticeGaps();
  ActivateMapped();
}

void RingServerChannel::NoticeGaps() {
  const auto now = Deadline::Clock::now();
  for (size_t index = 0; index < slots_.size(); ++index) {
    const Slot* const slot = slots_[index].get();
    const bool is_silent = slot != nullptr && slot->has_ended && !slot->HasInput();
    if (is_silent && now - slot->ended_at >= kForLastWords) {
      Free(static_cast<int>(index));
      continue;
    }
    if (slot != nullptr && slot->is_active && !slot->is_read && slot->reader.HasInput()) {
      if (!slot->unread_since.has_value()) slots_[index]->unread_since = now;
      if (now - *slot->unread_since < longest_gap_) continue;
      Break(static_cast<int>(index),
            Unavailable("it has said something by ring, and the note that says so has not come by ",
                        "socket: its connection has lost it"));
      continue;
    }
    const bool waits = slot != nullptr && slot->held.has_value() && !slot->HasInput();
    if (!waits || now - slot->held_since < longest_gap_) continue;
    Break(static_cast<int>(index),
          Unavailable("its message ", slot->received + 1, " has not come by socket, and message ",
                      slot->held->number, " has come by ring: its connection has lost one"));
  }
}

void RingServerChannel::ActivateMapped() {
  // What waits for room was said before, and those who will read the ring have got it by socket.
  if (mapped_.empty() || (shared_ != nullptr && shared_->is_waiting())) return;
  for (const int index : std::exchange(mapped_, {})) {
    Slot& slot = at(index);
    const uint64_t start = slot.output->writer().AddReader(index, &slot.answers.header().read);
    slot.is_active = true;
    slot_of_.emplace(slot.peer, index);
    (void)sockets_->Send({&slot.peer, 1}, {NoteFrame(kSwitchMagic, start)});
  }
}

void RingServerChannel::Free(int slot) {
  const std::unique_ptr<Slot> freed = std::move(slots_[static_cast<size_t>(slot)]);
  if (freed == nullptr) return;
  host_->Free(slot);
  freed->output->writer().RemoveReader(slot);
  std::erase(mapped_, slot);
  if (freed->is_active) slot_of_.erase(freed->peer);
  if (stashed_.has_value() && stashed_->slot == slot) stashed_.reset();
  PublishWaiting();
}

void RingServerChannel::Break(int slot, const Status& why) {
  if (slots_[static_cast<size_t>(slot)] == nullptr) return;
  broken_.push_back({at(slot).peer, AddressOf(at(slot).pid), why});
  Free(slot);
}

std::vector<RingServerChannel::Broken> RingServerChannel::TakeBroken() {
  return std::exchange(broken_, {});
}

bool RingServerChannel::IsByRing(const PeerName& peer) const {
  const auto found = slot_of_.find(peer);
  return found != slot_of_.end() && !slots_[static_cast<size_t>(found->second)]->has_ended;
}

bool RingServerChannel::IsHeldBack(const PeerName& peer) const {
  const auto found = slot_of_.find(peer);
  if (found == slot_of_.end()) return false;
  const Slot& slot = *slots_[static_cast<size_t>(found->second)];
  return slot.output->is_waiting() &&
         slot.answers.header().read.load(std::memory_order_seq_cst) == slot.output->writer().head();
}

// --- To peers.

Status RingServerChannel::Send(absl::Span<const PeerName> peers, const Message& message) {
  if (slot_of_.empty()) return sockets_->Send(peers, message);
  absl::InlinedVector<int, 8> by_ring;
  std::vector<PeerName> others;
  for (const PeerName& peer : peers) {
    const auto found = slot_of_.find(peer);
    // A client whose rings have ended goes on by socket.
    if (found != slot_of_.end() && !IsOver(at(found->second))) {
      by_ring.push_back(found->second);
    } else {
      others.push_back(peer);
    }
  }
  const bool is_for_all = shared_ != nullptr && by_ring.size() == slot_of_.size();
  const bool fits = RecordWords(message) <= LargestWords();
  if (is_for_all) {
    Publish(*shared_, fits ? RecordKind::kMessage : RecordKind::kBySocket, kAllReaders,
            fits ? message : Message());
    by_ring.clear();
  }
  // Of a ring that others read it would take room; a ring of its own is there for it.
  const bool is_written = fits && (is_for_all || shared_ == nullptr);
  for (const int slot : by_ring) {
    if (slots_[static_cast<size_t>(slot)] == nullptr) continue;  // it was broken meanwhile
    const uint64_t tag = shared_ == nullptr ? kAllReaders : static_cast<uint64_t>(slot);
    Publish(*at(slot).output, is_written ? RecordKind::kMessage : RecordKind::kBySocket, tag,
            is_written ? message : Message());
  }
  if (!is_written && shared_ != nullptr) return sockets_->Send(peers, message);
  if (!is_written) SendNumbered(by_ring, message);
  return others.empty() ? OkStatus() : sockets_->Send(others, message);
}

void RingServerChannel::SendNumbered(absl::Span<const int> slots, const Message& message) {
  for (const int index : slots) {
    if (slots_[static_cast<size_t>(index)] == nullptr) continue;  // it was broken meanwhile
    Slot& slot = at(index);
    (void)sockets_->Send({&slot.peer, 1}, WithNote(kBySocketMagic, ++slot.by_socket, message));
  }
}

uint64_t RingServerChannel::LargestWords() const {
  return BroadcastWriter::LargestOf(host_->words().broadcast);
}

void RingServerChannel::Publish(RingOutput& output, RecordKind kind, uint64_t tag,
                                const Message& message) {
  if (output.Publish(kind, tag, message)) WakeReaders();
  BreakLiars(output);
}

void RingServerChannel::BreakLiars(RingOutput& output) {
  for (const int slot : output.writer().TakeBroken()) {
    Break(slot, InvalidArgument("a peer says that it has read what was not written"));
  }
}

void RingServerChannel::PublishWaiting() {
  bool has_written = false;
  bool has_waited = false;
  ForEachOutput([&](RingOutput& output) {
    has_waited = has_waited || output.is_waiting();
    has_written = output.PublishWaiting() || has_written;
  });
  if (has_written) WakeReaders();
  if (!has_waited) return;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] == nullptr) continue;
    const std::shared_ptr<RingOutput> output = slots_[i]->output;  // its slot may be freed
    BreakLiars(*output);
    if (shared_ == nullptr && slots_[i] != nullptr && output->waiting() > kMostWaiting) {
      Break(static_cast<int>(i), ResourceExhausted("it does not take what it is told: ",
                                                   output->waiting(), " messages wait for it"));
    }
  }
}

void RingServerChannel::WakeReaders() {
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] == nullptr || !slots_[slot]->is_active) continue;
    if (slots_[slot]->waker.MustWake()) host_->Wake(static_cast<int>(slot));
  }
}

// --- From peers.

bool RingServerChannel::Slot::HasInput() const {
  if (!is_read) return false;
  return held.has_value() ? held->number == received + 1 : reader.HasInput();
}

bool RingServerChannel::MustLookAtHost() {
  return ++looks_ % kLookEvery == 0 || std::exchange(must_look_, false);
}

bool RingServerChannel::HasInput() {
  if (MustLookAtHost()) LookAtHost();
  if (MustAskSockets()) sockets_are_due_ = sockets_->HasInput();
  return HasInputAtHand();
}

bool RingServerChannel::HasInputAtHand() {
  PublishWaiting();
  ActivateMapped();
  // Sending may have taken away what would wake those who sleep.
  if (!sockets_are_due_ && !sockets_->drained()) sockets_are_due_ = sockets_->HasInput();
  if (!broken_.empty() || stashed_.has_value() || sockets_are_due_) return true;
  for (const std::unique_ptr<Slot>& slot : slots_) {
    if (slot != nullptr && slot->HasInput()) return true;
  }
  return false;
}

void RingServerChannel::BeginSleep() {
  if (!std::exchange(is_asleep_, true)) {
    ForEachOutput([](RingOutput& output) { output.memory().header().sleep.Begin(); });
  }
  must_look_ = true;
}

void RingServerChannel::EndSleep() {
  CancelSleep();
  LookAtHost();
}

void RingServerChannel::CancelSleep() {
  must_look_ = false;
  if (!std::exchange(is_asleep_, false)) return;
  ForEachOutput([](RingOutput& output) { output.memory().header().sleep.End(); });
}

bool RingServerChannel::Receive(PeerName* from, Message* message) {
  PublishWaiting();
  ActivateMapped();
  if (MustLookAtHost()) LookAtHost();
  if (TakeStashed(from, message)) return true;
  const unsigned first_every = shared_ == nullptr ? kClientSocketsFirstEvery : kSocketsFirstEvery;
  const bool sockets_first = looks_ % first_every == 0;
  if (!sockets_first && TakeFromRings(from, message)) return true;
  // A few at a time: who sends only what is of no good must not keep us here.
  for (int i = 0; i < kMostBySocket && MustAskSockets(); ++i) {
    sockets_are_due_ = sockets_->Receive(from, message);
    if (!sockets_are_due_) break;
    if (TakeBySocket(from, message)) return true;
  }
  return sockets_first && TakeFromRings(from, message);
}

bool RingServerChannel::TakeFromRings(PeerName* from, Message* message) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    turn_ = turn_ + 1 < slots_.size() ? turn_ + 1 : 0;
    if (slots_[turn_] != nullptr && TakeFrom(static_cast<int>(turn_), from, message)) return true;
  }
  return false;
}

bool RingServerChannel::TakeFrom(int index, PeerName* from, Message* message) {
  Slot& slot = at(index);
  if (!slot.is_read) return false;
  if (!slot.held.has_value()) {
    Slot::Held next;
    const StatusOr<bool> taken = slot.reader.Take(&next.number, &next.message);
    if (!taken.ok()) {
      Break(index, taken.status());
      return false;
    }
    if (!*taken) {
      if (slot.has_ended && !IsLateWith(slot)) Free(index);
      return false;
    }
    slot.held = std::move(next);
    slot.held_since = Deadline::Clock::now();
  }
  if (slot.held->number <= slot.received) {
    Break(index, InvalidArgument("message ", slot.held->number, " after ", slot.received));
    return false;
  }
  // The one before comes by socket.
  if (slot.held->number != slot.received + 1) return false;
  *message = std::move(slot.held->message);
  slot.held.reset();
  NoteReceived(slot, from);
  return true;
}

void RingServerChannel::NoteReceived(Slot& slot, PeerName* from) {
  ++slot.received;
  *from = slot.peer;
  last_by_ring_ = true;
  last_pid_ = slot.pid;
}

bool RingServerChannel::TakeStashed(PeerName* from, Message* message) {
  while (stashed_.has_value()) {
    const int index = stashed_->slot;
    Slot& slot = at(index);
    if (stashed_->number == slot.received + 1) {
      *message = std::move(stashed_->message);
      stashed_.reset();
      NoteReceived(slot, from);
      return true;
    }
    // What was said before is in its ring by now.
    if (TakeFrom(index, from, message)) return true;
    if (!stashed_.has_value()) break;
    if (stashed_->number == BySocket::kAfterAll) {
      *from = slot.peer;
      *message = std::move(stashed_->message);
      last_by_ring_ = false;
      Free(index);
      return true;
    }
    Break(index,
          InvalidArgument("message ", stashed_->number, " came by socket, and not all before"));
  }
  return false;
}

bool RingServerChannel::TakeBySocket(PeerName* from, Message* message) {
  last_by_ring_ = false;
  const std::optional<uint64_t> number = ReadNote(kNumberMagic, *message);
  const auto found = slot_of_.find(*from);
  if (found == slot_of_.end()) return !number.has_value();  // else it was given up
  const int index = found->second;
  Slot& slot = at(index);
  if (!slot.is_read && !number.has_value()) return true;
  // A number says so, too, should the note have been lost.
  slot.is_read = true;
  if (number == uint64_t{0} && message->size() == 1) return false;
  if (!number.has_value() && shared_ == nullptr) {
    // It has let go of its rings, and goes on by socket. It has said what is in them before.
    stashed_ = BySocket{index, BySocket::kAfterAll, std::move(*message)};
    return TakeStashed(from, message);
  }
  if (!number.has_value() || *number <= slot.received) {
    Break(index, InvalidArgument("a message by socket with a number that cannot be"));
    return false;
  }
  message->erase(message->begin());
  stashed_ = BySocket{index, *number, std::move(*message)};
  return TakeStashed(from, message);
}

std::string RingServerChannel::SenderAddress() const {
  return last_by_ring_ ? AddressOf(last_pid_) : sockets_->SenderAddress();
}

}  // namespace lockstep::control
