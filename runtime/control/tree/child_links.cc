#include "runtime/control/tree/child_links.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

void ChildLinks::Forget(uint64_t place) {
  gate_->ShutOut(place);
  for (const auto& [name, child] : children_) {
    if (child.place != place) continue;
    Remove(PeerName(name));
    return;
  }
}

void ChildLinks::Remove(const PeerName& name) {
  waiting_.erase(name);
  if (children_.erase(name) > 0) std::erase(names_, name);
}

bool ChildLinks::Receive(const TakeBundle& take) {
  bool any = false;
  PeerName from;
  Message message;
  while (channel().Receive(&from, &message)) {
    any = true;
    const std::optional<TreeNote> note = ReadTreeNote(message);
    if (!note.has_value()) continue;
    switch (note->word) {
      case TreeWord::kJoin: {
        uint64_t place = 0;
        const std::string_view text = TextOfNote(message, 0);
        if (note->world != world_ || text.size() != sizeof place) break;
        std::memcpy(&place, text.data(), sizeof place);
        // Where it shows no key the kernel keeps others apart.
        const Identity* const who = channel().sender();
        if (who != nullptr && who->name != RelayGate::NameOf(place)) break;
        TakeJoin(from, place, note->value);
        break;
      }
      case TreeWord::kLeft:
        Remove(from);
        break;
      case TreeWord::kBundle: {
        const auto child = children_.find(from);
        const StatusOr<uint64_t> consumed = ConsumedOf(message);
        if (child == children_.end()) {
          // A connection that was made anew has another name, and was not joined by.
          (void)channel().Send({&from, 1}, MakeNote(TreeWord::kForget, world_, 0));
          break;
        }
        if (!consumed.ok()) break;
        // Less than before, once one has joined it that is further behind.
        child->second.consumed = *consumed;
        if (message.size() > 1 && message[1].size() > 0) take(from, note->value, message);
        break;
      }
      default:
        break;
    }
  }
  return any;
}

void ChildLinks::TakeJoin(const PeerName& from, uint64_t place, uint64_t consumed) {
  if (children_.contains(from) || children_.size() + waiting_.size() >= kMostChildren) return;
  if (position_.has_value()) return Join(from, {place, consumed});
  waiting_[from] = {place, consumed};
}

void ChildLinks::Join(const PeerName& name, const Child& child) {
  children_[name] = child;
  names_.push_back(name);
  (void)channel().Send({&name, 1}, MakeNote(TreeWord::kJoined, world_, *position_));
}

void ChildLinks::Start(uint64_t position) {
  position_ = position;
  for (const auto& [name, child] : std::exchange(waiting_, {})) Join(name, child);
}

void ChildLinks::PassOn(const Message& packet) {
  ++*position_;
  if (!names_.empty()) (void)channel().Send(names_, packet);
}

void ChildLinks::TellTaken(const PeerName& child, uint64_t number) {
  (void)channel().Send({&child, 1}, MakeNote(TreeWord::kTaken, world_, number));
}

uint64_t ChildLinks::Consumed(uint64_t own) const {
  for (const auto& [name, child] : children_) own = std::min(own, child.consumed);
  return own;
}

}  // namespace lockstep::control
