#include "runtime/control/tree/tree_server_channel.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/tree/flat_message.h"

namespace lockstep::control {
namespace {

// Of endpoints and keys, which are passed on to others.
constexpr size_t kLongestText = 512;
// Messages of the tree's own that are taken before something else gets its turn.
constexpr int kMostNotesAtOnce = 256;
// A worker keeps its bundles until it is told that they have come, every so many of them.
constexpr uint64_t kTellTakenEvery = 16;
// How many packets are kept before it is asked which are needed.
constexpr uint64_t kForgetEvery = 64;

std::string ShortText(const Message& note, size_t index) {
  const std::string_view text = TextOfNote(note, index);
  return std::string(text.substr(0, kLongestText));
}

}  // namespace

TreeServerChannel::TreeServerChannel(std::unique_ptr<ServerChannel> sockets, int fan_out,
                                     size_t most_replay_bytes)
    : sockets_(std::move(sockets)), fan_out_(std::max(fan_out, 2)), log_(most_replay_bytes) {}

TreeServerChannel::~TreeServerChannel() { Seal(); }

TreeServerChannel::Place* TreeServerChannel::Tree::Find(const PeerName& peer) {
  const auto found = index.find(peer);
  if (found == index.end()) return nullptr;
  Place& place = places[static_cast<size_t>(found->second)];
  return place.worker == nullptr ? nullptr : &place;
}

TreeServerChannel::Worker& TreeServerChannel::WorkerOf(const PeerName& peer) {
  std::unique_ptr<Worker>& worker = workers_[peer];
  if (worker == nullptr) {
    worker = std::make_unique<Worker>();
    worker->peer = peer;
    worker->number = ++last_worker_;
    worker->key = AnswerKey::New();
    worker->consumed = log_.last();
    answers_.Add(worker->number, peer, worker->key);
  }
  return *worker;
}

void TreeServerChannel::Say(const PeerName& peer, TreeWord word, uint64_t world, uint64_t value,
                            std::initializer_list<std::string_view> texts) {
  (void)sockets_->Send({&peer, 1}, MakeNote(word, world, value, texts));
}

// --- Worlds.

void TreeServerChannel::Arrange(const std::vector<PeerName>& peers) {
  next_ = Tree();
  asked_.clear();
  if (peers.size() <= static_cast<size_t>(fan_out_)) return;
  next_.world = ++last_world_;
  for (const PeerName& peer : peers) {
    const int place = static_cast<int>(next_.places.size());
    next_.index[peer] = place;
    Worker& worker = WorkerOf(peer);
    next_.places.push_back(
        {.worker = &worker, .number = worker.number, .parent = place / fan_out_ - 1});
  }
}

std::optional<TreeOffer> TreeServerChannel::OfferTo(const PeerName& peer) {
  const Place* const place = next_.Find(peer);
  if (place == nullptr) return std::nullopt;
  const bool has_children =
      FirstBelow(static_cast<size_t>(next_.index[peer])) < next_.places.size();
  return TreeOffer{next_.world, place->worker->number, has_children, signer_.public_key(),
                   place->worker->key};
}

void TreeServerChannel::Activate() {
  tree_ = std::exchange(next_, {});
  here_is_known_ = false;
  asked_.clear();
  for (Place& place : tree_.places) {
    if (place.worker == nullptr) continue;
    place.worker->sent = log_.last();
    Say(place.worker->peer, TreeWord::kStart, tree_.world, log_.last());
  }
}

void TreeServerChannel::Dissolve() {
  Seal();
  for (const Place& place : tree_.places) {
    if (place.worker == nullptr) continue;
    // Who is sent all from here has all of this tree once it has what was left of one before.
    if (place.by != Place::By::kHere) {
      place.worker->left_world = tree_.world;
      place.worker->left_at = log_.last();
      place.worker->left_sent = place.worker->sent;
    }
    Say(place.worker->peer, TreeWord::kLeave, tree_.world, log_.last());
  }
  tree_ = Tree();
  here_is_known_ = false;
  asked_.clear();
}

void TreeServerChannel::GiveUp(const PeerName& peer) {
  asked_.clear();
  Seal();
  if (Place* const place = next_.Find(peer); place != nullptr) place->worker = nullptr;
  if (const auto found = tree_.index.find(peer); found != tree_.index.end()) {
    const int lost = found->second;
    Place& place = tree_.places[static_cast<size_t>(lost)];
    if (place.worker != nullptr) {
      Detach(lost);
      for (size_t i = 0; i < tree_.places.size(); ++i) {
        Place& child = tree_.places[i];
        if (child.parent != lost || child.by != Place::By::kBelow) continue;
        // It was counted in what its parent has told.
        child.worker->consumed = std::max(child.worker->consumed, place.worker->consumed);
        Reparent(child.worker->peer);
      }
      place.worker = nullptr;
    }
    // Without anybody in it, no message would ever end it, and none begin the next.
    const auto is_lost = [](const Place& left) { return left.worker == nullptr; };
    if (std::all_of(tree_.places.begin(), tree_.places.end(), is_lost)) tree_ = Tree();
  }
  const auto worker = workers_.find(peer);
  if (worker == workers_.end()) return;
  answers_.Remove(worker->second->number);
  workers_.erase(worker);
}

// Its parent need not wait for it any more.
void TreeServerChannel::Detach(int index) {
  Place& place = tree_.places[static_cast<size_t>(index)];
  here_is_known_ = false;
  if (place.by == Place::By::kBelow) place.by = Place::By::kReturning;
  // It may have joined before it is known here to be attached.
  if (!std::exchange(place.is_child, false)) return;
  const Place& parent = tree_.places[static_cast<size_t>(place.parent)];
  if (parent.worker == nullptr) return;
  Say(parent.worker->peer, TreeWord::kForget, tree_.world, static_cast<uint64_t>(index));
}

bool TreeServerChannel::Reparent(const PeerName& peer) {
  Place* const place = tree_.Find(peer);
  if (place == nullptr || place->by != Place::By::kBelow) return false;
  Detach(tree_.index[peer]);
  Say(peer, TreeWord::kOrphan, tree_.world, 0);
  return true;
}

bool TreeServerChannel::IsBelowAnother(const PeerName& peer) const {
  const auto found = tree_.index.find(peer);
  if (found == tree_.index.end()) return false;
  const Place& place = tree_.places[static_cast<size_t>(found->second)];
  return place.worker != nullptr && place.by == Place::By::kBelow;
}

void TreeServerChannel::Break(const PeerName& peer, const Status& why) {
  broken_.push_back({peer, why});
}

// --- To workers.

TreeServerChannel::Reach TreeServerChannel::ReachOf(absl::Span<const PeerName> peers) {
  // The same list is asked for with each message. Its content counts: it may lie where another did.
  if (peers.size() > 1 && std::equal(peers.begin(), peers.end(), asked_.begin(), asked_.end())) {
    return reach_;
  }
  asked_.assign(peers.begin(), peers.end());
  others_.clear();
  Tree& tree = tree_.world != 0 ? tree_ : next_;
  size_t found = 0;
  for (const PeerName& peer : peers) {
    if (tree.Find(peer) != nullptr) {
      ++found;
    } else {
      others_.push_back(peer);
    }
  }
  const auto there = std::count_if(tree.places.begin(), tree.places.end(),
                                   [](const Place& place) { return place.worker != nullptr; });
  reach_ = found == 0                                         ? Reach::kNone
           : found == static_cast<size_t>(there) && found > 1 ? Reach::kAll
                                                              : Reach::kSome;
  return reach_;
}

Status TreeServerChannel::Send(absl::Span<const PeerName> peers, const Message& message) {
  if (tree_.world == 0 && next_.world == 0) return sockets_->Send(peers, message);
  switch (ReachOf(peers)) {
    case Reach::kNone:
      return sockets_->Send(peers, message);
    case Reach::kSome:
      if (tree_.world != 0) Dissolve();
      return sockets_->Send(peers, message);
    case Reach::kAll:
      break;
  }
  if (tree_.world == 0) {
    Activate();
    ReachOf(peers);
  }
  // Whatever becomes of the others, nobody in the tree may miss it.
  Add(message);
  return others_.empty() ? OkStatus() : sockets_->Send(others_, message);
}

void TreeServerChannel::Add(const Message& message) {
  if (SizeOf(message) <= kLargestPacked) {
    packet_.Add(message);
    if (packet_.is_full()) Seal();
    return;
  }
  Seal();
  SendPacket(PacketWriter::SealWhole(message, tree_.world, log_.last() + 1, signer_));
}

void TreeServerChannel::Seal() {
  if (!packet_.empty()) SendPacket(packet_.Seal(tree_.world, log_.last() + 1, signer_));
}

void TreeServerChannel::SendPacket(Message packet) {
  if (!here_is_known_) {
    here_is_known_ = true;
    here_.clear();
    for (const Place& place : tree_.places) {
      if (place.worker != nullptr && place.by == Place::By::kHere) {
        here_.push_back(place.worker->peer);
      }
    }
  }
  (void)sockets_->Send(here_, packet);
  log_.Add(std::move(packet));
  if (log_.last() % kForgetEvery == 0) ForgetConsumed();
}

void TreeServerChannel::Replay(const Worker& worker, uint64_t after, uint64_t until,
                               uint64_t& sent) {
  after = std::max(after, sent);
  if (after < until && after + 1 < log_.first()) {
    return Break(worker.peer, Unavailable("it has got packet ", after, " last, and those up to ",
                                          log_.first() - 1, " are kept no more"));
  }
  for (uint64_t number = after + 1; number <= until; ++number) {
    (void)sockets_->Send({&worker.peer, 1}, log_.at(number));
  }
  sent = std::max(after, until);
}

void TreeServerChannel::ForgetConsumed() {
  uint64_t all = log_.last();
  for (const Place& place : tree_.places) {
    if (place.worker == nullptr || place.by == Place::By::kBelow) continue;
    all = std::min(all, place.worker->consumed);
  }
  log_.Forget(all);
}

// --- From workers.

bool TreeServerChannel::HasInput() {
  Seal();
  return !answers_.empty() || sockets_->HasInput();
}

void TreeServerChannel::BeginSleep() {
  Seal();
  sockets_->BeginSleep();
}

bool TreeServerChannel::Receive(PeerName* from, Message* message) {
  Seal();
  for (int i = 0; i < kMostNotesAtOnce; ++i) {
    if (!answers_.empty()) {
      std::tie(*from, *message) = answers_.Next();
      by_tree_ = true;
      return true;
    }
    by_tree_ = false;
    if (!sockets_->Receive(from, message)) return false;
    if (!TakeNote(*from, *message)) return true;
  }
  return false;
}

bool TreeServerChannel::TakeNote(const PeerName& from, const Message& message) {
  const std::optional<TreeNote> note = ReadTreeNote(message);
  if (!note.has_value()) return false;
  const auto found = workers_.find(from);
  if (found == workers_.end()) return true;  // it was given up, or was never in a tree
  Worker& worker = *found->second;
  switch (note->word) {
    case TreeWord::kBundle:
      TakeBundle(worker, *note, message);
      return true;
    case TreeWord::kReturned:
      TakeReturned(worker, *note, message);
      return true;
    case TreeWord::kHere:
      for (Tree* tree : {&tree_, &next_}) {
        if (tree->world == note->world && tree->Find(from) != nullptr) {
          TakeHere(*tree, tree->index[from], message);
        }
      }
      return true;
    case TreeWord::kAttached:
      if (tree_.world == note->world && tree_.Find(from) != nullptr) {
        TakeAttached(tree_.index[from], note->value);
      }
      return true;
    default:
      return true;  // nothing that a worker says
  }
}

void TreeServerChannel::TakeHere(Tree& tree, int index, const Message& message) {
  Place& place = tree.places[static_cast<size_t>(index)];
  if (place.is_known) return;
  place.is_known = true;
  place.endpoint = ShortText(message, 0);
  place.key = ShortText(message, 1);
  place.child_key = ShortText(message, 2);
  Introduce(tree, index);
  const auto place_number = static_cast<size_t>(index);
  const size_t end = std::min(FirstBelow(place_number + 1), tree.places.size());
  for (size_t child = FirstBelow(place_number); child < end; ++child) {
    Introduce(tree, static_cast<int>(child));
  }
}

void TreeServerChannel::Introduce(Tree& tree, int index) {
  Place& child = tree.places[static_cast<size_t>(index)];
  if (child.parent < 0 || child.worker == nullptr || !child.is_known) return;
  const Place& parent = tree.places[static_cast<size_t>(child.parent)];
  if (parent.worker == nullptr || !parent.is_known || parent.endpoint.empty()) return;
  const auto value = static_cast<uint64_t>(index);
  child.is_child = true;
  const std::string numbers = NumbersFrom(tree, static_cast<size_t>(index));
  Say(parent.worker->peer, TreeWord::kChild, tree.world, value, {child.child_key, numbers});
  Say(child.worker->peer, TreeWord::kParent, tree.world, value, {parent.endpoint, parent.key});
}

std::string TreeServerChannel::NumbersFrom(const Tree& tree, size_t place) const {
  std::string numbers;
  // Level by level: those at one that are below the same place are neighbours.
  for (size_t first = place, end = place + 1; first < tree.places.size();
       first = FirstBelow(first), end = FirstBelow(end)) {
    for (size_t i = first; i < std::min(end, tree.places.size()); ++i) {
      const uint64_t number = tree.places[i].number;
      numbers.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
  }
  return numbers;
}

void TreeServerChannel::TakeAttached(int index, uint64_t position) {
  Place& place = tree_.places[static_cast<size_t>(index)];
  if (place.by != Place::By::kHere || place.parent < 0 || position > log_.last()) return;
  Worker& worker = *place.worker;
  const Place& parent = tree_.places[static_cast<size_t>(place.parent)];
  if (parent.worker == nullptr || worker.has_gap || answers_.HasGap(worker.number)) {
    // It has joined one that is lost by now, or one that has been quicker with what it has said
    // since than it was itself with what it had said before. It is to come back, and say it again.
    Say(worker.peer, TreeWord::kOrphan, tree_.world, 0);
    worker.sent = log_.last();
    place.by = Place::By::kReturning;
  } else {
    worker.sent = log_.last();
    place.by = Place::By::kBelow;
    // All above it tell from now on how far it is, too, and have told without it before.
    for (int above = place.parent; above >= 0;
         above = tree_.places[static_cast<size_t>(above)].parent) {
      Worker* const relay = tree_.places[static_cast<size_t>(above)].worker;
      if (relay == nullptr) continue;
      relay->consumed = std::min(relay->consumed, worker.consumed);
      relay->doubted_until = log_.last();
    }
    Say(worker.peer, TreeWord::kTakenOver, tree_.world, worker.bundles);
    worker.told = worker.bundles;
  }
  here_is_known_ = false;
}

void TreeServerChannel::TakeReturned(Worker& worker, const TreeNote& note, const Message& message) {
  if (note.value > log_.last()) {
    return Break(worker.peer,
                 InvalidArgument("it says to have got packet ", note.value, " of ", log_.last()));
  }
  if (note.world == worker.left_world && note.world != tree_.world) {
    return Replay(worker, note.value, worker.left_at, worker.left_sent);
  }
  Place* const place = note.world == tree_.world ? tree_.Find(worker.peer) : nullptr;
  if (place == nullptr || place->by == Place::By::kHere) return;
  if (const std::string why = ShortText(message, 0); !why.empty() && place->parent >= 0) {
    log::Warn("worker ", tree_.index[worker.peer],
              " of the tree gets commands from here again: of ", "worker ", place->parent,
              ", which it had them from, it says that ", why);
  }
  Detach(tree_.index[worker.peer]);
  Seal();
  place->by = Place::By::kHere;
  here_is_known_ = false;
  Replay(worker, note.value, log_.last(), worker.sent);
}

void TreeServerChannel::TakeBundle(Worker& worker, const TreeNote& note, const Message& message) {
  const StatusOr<uint64_t> consumed = ConsumedOf(message);
  if (!consumed.ok() || *consumed > log_.last()) {
    return Break(worker.peer, InvalidArgument("it sends bundles that cannot be"));
  }
  // May be less than before, for one that has joined those below it. Such a one was sent packets by
  // its relay before the one that was the last when it attached: who tells of more counts it.
  worker.consumed =
      *consumed > worker.doubted_until ? *consumed : std::min(*consumed, worker.consumed);
  if (IsAfterAGap(message, worker.bundles)) {
    // Taken, it would be told to have arrived, with all before it.
    if (!std::exchange(worker.has_gap, true)) {
      Say(worker.peer, TreeWord::kSayAgain, note.world, worker.bundles);
    }
    return;
  }
  worker.has_gap = false;
  worker.bundles = std::max(worker.bundles, note.value);
  const Status read = answers_.Take(
      message, [&](const AnswerCollector::Fault& fault) { TakeFault(fault, worker); });
  if (!read.ok()) return Break(worker.peer, read);
  const bool is_large = message.size() > 2;
  if (!is_large && worker.bundles < worker.told + kTellTakenEvery) return;
  worker.told = worker.bundles;
  Say(worker.peer, TreeWord::kTaken, note.world, worker.bundles);
}

bool TreeServerChannel::IsAbove(const Worker& other, const PeerName& peer) {
  const Place* place = tree_.Find(peer);
  while (place != nullptr && place->parent >= 0) {
    place = &tree_.places[static_cast<size_t>(place->parent)];
    if (place->worker == &other) return true;
  }
  return false;
}

void TreeServerChannel::TakeFault(const AnswerCollector::Fault& fault, const Worker& by) {
  const bool is_made_up = fault.kind == AnswerCollector::Fault::Kind::kTag;
  if (fault.worker != by.peer) {
    // A relay has altered something, or left it out. The worker has kept it, and says it again when
    // it returns; if it has not, it was told that this had arrived. What others than those above it
    // pass on says nothing about how it is served.
    if (IsAbove(by, fault.worker) && Reparent(fault.worker) && is_made_up) {
      log::Warn(
          "a relay has passed on what the worker below it has not said: it is heard directly");
    }
    return;
  }
  if (is_made_up) return Break(by.peer, PermissionDenied("its answers are not its own"));
  if (Reparent(by.peer)) return;
  Break(by.peer, Unavailable("its answers after number ", fault.last,
                             " were lost on their way through other workers"));
}

}  // namespace lockstep::control
