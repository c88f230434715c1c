#include "runtime/control/tree/child_links.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/control/tree/packet.h"

namespace lockstep::control {
namespace {

// More of them than any tree's relay has.
constexpr size_t kMostChildren = 4096;

}  // namespace

StatusOr<std::unique_ptr<ChildLinks>> ChildLinks::Open(uint64_t world,
                                                       const ListenForChildren& listen) {
  auto gate = std::make_shared<RelayGate>();
  LOCKSTEP_ASSIGN_OR_RETURN(RelayListener listener, listen(gate));
  return std::unique_ptr<ChildLinks>(new ChildLinks(world, std::move(listener), std::move(gate)));
}

void ChildLinks::Expect(uint64_t place, const std::string& key, std::vector<uint64_t> workers) {
  Child& child = children_[place];
  if (child.is_shut_out) return;
  std::sort(workers.begin(), workers.end());
  child.workers = std::move(workers);
  child.is_expected = true;
  gate_->LetIn(place, key);
  JoinIfDue(child);
}

void ChildLinks::Forget(uint64_t place) {
  gate_->ShutOut(place);
  Child& child = children_[place];
  child.is_shut_out = true;
  Remove(child);
}

ChildLinks::Child* ChildLinks::Find(const PeerName& name) {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &children_[place->second];
}

void ChildLinks::Remove(Child& child) {
  places_.erase(child.name);
  if (std::exchange(child.has_joined, false)) std::erase(names_, child.name);
  child.name.clear();
  child.bundles = 0;
}

void ChildLinks::Say(const PeerName& name, TreeWord word, uint64_t value) {
  (void)channel().Send({&name, 1}, MakeNote(word, world_, value));
}

bool ChildLinks::Receive(int most, const TakeBundle& take) {
  bool any = false;
  PeerName from;
  Message message;
  for (int i = 0; i < most && channel().Receive(&from, &message); ++i) {
    any = true;
    const std::optional<TreeNote> note = ReadTreeNote(message);
    if (!note.has_value()) continue;
    switch (note->word) {
      case TreeWord::kJoin:
        if (note->world == world_) TakeJoin(from, message, note->value);
        break;
      case TreeWord::kLeft:
        if (Child* const child = Find(from); child != nullptr) Remove(*child);
        break;
      case TreeWord::kBundle:
        TakeBundleOf(from, note->value, message, take);
        break;
      default:
        break;
    }
  }
  return any;
}

void ChildLinks::TakeBundleOf(const PeerName& from, uint64_t number, const Message& bundle,
                              const TakeBundle& take) {
  Child* const child = Find(from);
  if (child == nullptr || !child->has_joined) {
    // A connection that was made anew was not joined by.
    return Say(from, TreeWord::kForget, 0);
  }
  const auto may_speak = [child](uint64_t worker) {
    return std::binary_search(child->workers.begin(), child->workers.end(), worker);
  };
  const StatusOr<uint64_t> consumed = ConsumedOf(bundle);
  Status status = consumed.status();
  if (status.ok()) status = CheckBundle(bundle, may_speak);
  // The child is told that all up to one have arrived: those after a gap must not be among them. It
  // says all of them again to the controller.
  if (status.ok() && IsAfterAGap(bundle, child->bundles)) {
    status = Unavailable("its connection has lost what it has said after bundle ", child->bundles);
  }
  if (status.ok()) {
    // Less than before, once one has joined it that is further behind.
    child->consumed = *consumed;
    if (number > child->bundles && bundle[1].size() > 0) status = take(from, number, bundle);
    child->bundles = std::max(child->bundles, number);
  }
  if (status.ok()) return;
  // Passed on, it would be taken for nonsense of this worker.
  log::Warn("a worker below is to get its commands from the controller itself: ",
            lockstep::Message(status));
  Say(from, TreeWord::kForget, 0);
  Forget(places_[from]);
}

void ChildLinks::TakeJoin(const PeerName& from, const Message& message, uint64_t consumed) {
  uint64_t place = 0;
  const std::string_view text = TextOfNote(message, 0);
  if (text.size() != sizeof place) return;
  std::memcpy(&place, text.data(), sizeof place);
  // Where it shows no key the kernel keeps others apart.
  const Identity* const who = channel().sender();
  if (who != nullptr && who->name != RelayGate::NameOf(place)) return;
  if (!children_.contains(place) && children_.size() >= kMostChildren) return;
  if (Child* const other = Find(from); other != nullptr) Remove(*other);
  Child& child = children_[place];
  if (child.is_shut_out) return;
  // The newest connection counts: of one before the child knows nothing any more.
  Remove(child);
  child.name = from;
  child.consumed = consumed;
  places_[from] = place;
  JoinIfDue(child);
}

void ChildLinks::JoinIfDue(Child& child) {
  if (child.name.empty() || child.has_joined || !child.is_expected || !position_.has_value()) {
    return;
  }
  child.has_joined = true;
  names_.push_back(child.name);
  Say(child.name, TreeWord::kJoined, *position_);
}

void ChildLinks::Start(uint64_t position) {
  position_ = position;
  for (auto& [place, child] : children_) JoinIfDue(child);
}

void ChildLinks::PassOn(const Message& packet) {
  ++*position_;
  if (!names_.empty()) (void)channel().Send(names_, packet);
}

void ChildLinks::TellTaken(const PeerName& child, uint64_t number) {
  Say(child, TreeWord::kTaken, number);
}

uint64_t ChildLinks::Consumed(uint64_t own) const {
  for (const auto& [place, child] : children_) {
    if (child.has_joined) own = std::min(own, child.consumed);
  }
  return own;
}

}  // namespace lockstep::control
