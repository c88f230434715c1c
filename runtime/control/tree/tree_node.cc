#include "runtime/control/tree/tree_node.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/control/tree/flat_message.h"
#include "runtime/control/tree/packet.h"

namespace lockstep::control {
namespace {

// How far packets were consumed is told with every bundle, and at the latest after so many of them:
// the controller keeps those that may not have arrived.
constexpr uint64_t kTellConsumedEvery = 64;
constexpr uint64_t kTellConsumedBytes = uint64_t{1} << 20;
// Messages of one channel that are taken before the others get their turn, and turns of all before
// the worker itself is looked after.
constexpr int kMostAtOnce = 256;
constexpr int kMostPasses = 8;
// A parent that can be reached answers at once.
constexpr std::chrono::seconds kLongestSilence{5};
constexpr std::chrono::hours kNoNeedToLook{1};

std::vector<uint64_t> NumbersIn(std::string_view text) {
  std::vector<uint64_t> numbers(text.size() / sizeof(uint64_t));
  if (!numbers.empty())
    std::memcpy(numbers.data(), text.data(), numbers.size() * sizeof numbers[0]);
  return numbers;
}

}  // namespace

TreeNode::TreeNode(ClientChannel& direct, TreeConnections connections, Deliver deliver)
    : direct_(direct),
      connections_(std::move(connections)),
      deliver_(std::move(deliver)),
      upstream_([this](const Message& bundle) { SendUp(bundle); }) {}

void TreeNode::Begin(const TreeOffer& offer) {
  // All of the world before has come. If that had no packets, nothing has ended it, and its parent
  // is still there.
  DropParent();
  children_.reset();
  ++changes_;
  if (offer.world == 0) return;
  offer_ = offer;
  upstream_.Identify(offer.worker, offer.answers);
  key_ = NewKeyPair();
  std::string endpoint;
  std::string key;
  if (offer.has_children) {
    auto children = ChildLinks::Open(offer.world, connections_.listen);
    if (children.ok()) {
      children_ = std::move(*children);
      endpoint = children_->endpoint();
      key = children_->key();
      if (world_ == offer.world) children_->Start(position_);
    } else {
      log::Warn("this worker passes on no commands: ", lockstep::Message(children.status()));
    }
  }
  (void)direct_.Send(
      MakeNote(TreeWord::kHere, offer.world, 0, {endpoint, key, key_.public_key.Text()}));
}

absl::InlinedVector<Channel*, 3> TreeNode::channels() {
  absl::InlinedVector<Channel*, 3> channels{&direct_};
  if (parent_ != nullptr) channels.push_back(parent_.get());
  if (children_ != nullptr) channels.push_back(&children_->channel());
  return channels;
}

void TreeNode::Go() {
  bool again = true;
  for (int pass = 0; again && pass < kMostPasses; ++pass) {
    again = GoOnce();
    const uint64_t consumed = Consumed();
    // Less than before, once one has joined that is further behind: those above are to know at
    // once.
    const bool is_far = consumed < told_consumed_ ||
                        consumed >= told_consumed_ + kTellConsumedEvery ||
                        (consumed > told_consumed_ && bytes_since_told_ >= kTellConsumedBytes);
    upstream_.Flush(offer_.world, consumed, is_far);
    if (is_far) {
      told_consumed_ = consumed;
      bytes_since_told_ = 0;
    }
    // What was sent may hide what has come.
    for (Channel* channel : channels()) again = again || !channel->drained();
  }
}

uint64_t TreeNode::Consumed() const {
  return children_ == nullptr ? position_ : children_->Consumed(position_);
}

bool TreeNode::GoOnce() {
  bool any = false;
  Message message;
  for (int i = 0; i < kMostAtOnce && direct_.Receive(&message); ++i) {
    any = true;
    TakeDirect(std::move(message));
  }
  bool has_more = false;
  for (int i = 0; i < kMostAtOnce && parent_ != nullptr; ++i) {
    has_more = parent_->Receive(&message);
    if (!has_more) break;
    any = true;
    TakeFromParent(message);
  }
  // It may have lost the last that was said by it, which nothing would tell.
  if (parent_ != nullptr && !has_more && parent_->interruptions() > 0) {
    any = true;
    LeaveParent("the connection with it has ended");
  }
  if (children_ != nullptr) {
    const auto take = [this](const PeerName& child, uint64_t number, const Message& bundle) {
      return upstream_.PassOn(child, number, bundle);
    };
    any = children_->Receive(kMostAtOnce, take) || any;
  }
  return any;
}

bool TreeNode::IsDueBeforeTheEnd(const TreeNote& note) const {
  return note.world == world_ && (note.word == TreeWord::kPacket || note.word == TreeWord::kTaken);
}

void TreeNode::TakeDirect(Message message) {
  const std::optional<TreeNote> note = ReadTreeNote(message);
  if (last_.has_value() && !(note.has_value() && IsDueBeforeTheEnd(*note))) {
    held_.push_back(std::move(message));
    return;
  }
  if (!note.has_value()) return deliver_(std::move(message));
  TakeInOrder(message);
  EndIfComplete();
}

void TreeNode::TakeInOrder(const Message& message) {
  const TreeNote note = *ReadTreeNote(message);
  const bool is_offered = note.world == offer_.world;
  switch (note.word) {
    case TreeWord::kStart:
      world_ = note.world;
      position_ = told_consumed_ = note.value;
      if (children_ != nullptr && is_offered) children_->Start(position_);
      return TryToJoin();
    case TreeWord::kPacket:
      if (note.world != world_ || note.value <= position_) return;
      // One that has just joined its parent may get from that what its own connection has lost.
      if (is_attached_ && note.value > position_ + 1) return;
      return TakeFromController(message, note.value);
    case TreeWord::kParent:
      if (is_offered) JoinParent(message);
      return;
    case TreeWord::kChild:
      if (is_offered && children_ != nullptr) {
        children_->Expect(note.value, std::string(TextOfNote(message, 0)),
                          NumbersIn(TextOfNote(message, 1)));
      }
      return;
    case TreeWord::kForget:
      if (is_offered && children_ != nullptr) children_->Forget(note.value);
      return;
    case TreeWord::kOrphan:
      if (note.world == world_) LeaveParent("");
      return;
    case TreeWord::kTaken:
      return NoteTaken(note.value);
    case TreeWord::kTakenOver:
      NoteTaken(note.value);
      if (note.world != world_ || !is_attached_ || is_taken_over_) return;
      is_taken_over_ = true;
      return upstream_.SendAgain();  // what was held back
    case TreeWord::kSayAgain:
      // One that has a parent says all of it again when it leaves that.
      if (!is_attached_) upstream_.SendAgain();
      return;
    case TreeWord::kLeave:
      if (note.world != world_) return;
      last_ = note.value;
      // Nobody watches over parents of a tree that has ended: what is missing comes from whoever is
      // quicker. A controller that ends may not be there to send it.
      if (position_ < *last_ && parent_ != nullptr) {
        (void)direct_.Send(MakeNote(TreeWord::kReturned, world_, position_, {""}));
      }
      return;
    default:
      return;  // nothing that a controller says
  }
}

void TreeNode::TakeFromController(const Message& packet, uint64_t number) {
  // It leaves nothing out, so its connection has lost what is missing. That is for the worker to
  // see, whose batches are numbered; those below see it, too, and get it from the controller.
  if (number > position_ + 1) {
    position_ = number - 1;
    if (children_ != nullptr && world_ == offer_.world) children_->Start(position_);
  }
  Take(packet);
}

void TreeNode::NoteTaken(uint64_t number) {
  for (const auto& [child, last] : upstream_.NoteTaken(number)) {
    if (children_ != nullptr) children_->TellTaken(child, last);
  }
}

void TreeNode::JoinParent(const Message& note) {
  if (parent_ != nullptr || is_attached_) return;
  place_ = ReadTreeNote(note)->value;
  const std::string endpoint(TextOfNote(note, 0));
  const std::string key(TextOfNote(note, 1));
  CredentialSource credentials;
  if (!key.empty()) {
    const StatusOr<PublicKey> known = ParsePublicKey(key);
    if (!known.ok()) return;
    credentials = [own = key_, known = *known]() -> StatusOr<Credentials> {
      return Credentials{own, {known}};
    };
  }
  auto parent = connections_.connect(endpoint, std::move(credentials));
  if (!parent.ok()) {
    log::Warn("commands come from the controller itself: ", lockstep::Message(parent.status()));
    return;
  }
  parent_ = std::move(*parent);
  parent_endpoint_ = endpoint;
  ++changes_;
  TryToJoin();
}

void TreeNode::TryToJoin() {
  if (parent_ == nullptr || asked_at_.has_value() || world_ != offer_.world) return;
  asked_at_ = Deadline::Clock::now();
  const std::string_view place(reinterpret_cast<const char*>(&place_), sizeof place_);
  (void)parent_->Send(MakeNote(TreeWord::kJoin, world_, Consumed(), {place}));
}

Deadline TreeNode::LookAtParent(Deadline::Clock::time_point now) {
  const bool is_silent = asked_at_.has_value() && !next_from_parent_.has_value();
  if (!is_silent || has_told_of_silence_) return Deadline::At(now + kNoNeedToLook);
  const Deadline until = Deadline::At(*asked_at_ + kLongestSilence);
  if (now < until.when()) return until;
  has_told_of_silence_ = true;
  log::Warn("commands come from the controller itself: the worker at ", parent_endpoint_,
            ", which is to pass them on, does not answer; most likely it cannot be reached");
  return Deadline::At(now + kNoNeedToLook);
}

void TreeNode::TakeFromParent(const Message& message) {
  const std::optional<TreeNote> note = ReadTreeNote(message);
  if (!note.has_value()) return LeaveParent("it says what no relay says");
  // It may be in another world already, or not yet in this one.
  if (note->world != world_) return;
  switch (note->word) {
    case TreeWord::kJoined:
      if (!next_from_parent_.has_value()) next_from_parent_ = note->value + 1;
      return AttachIfSeamless();
    case TreeWord::kTaken:
      return NoteTaken(note->value);
    case TreeWord::kForget:
      return LeaveParent("it does not know this worker");
    case TreeWord::kPacket:
      break;
    default:
      return LeaveParent("it says what no relay says");
  }
  if (note->value == position_ + 1) {
    if (!IsSigned(message, offer_.controller)) {
      return LeaveParent("it sent a packet that the controller has not signed");
    }
    next_from_parent_ = note->value + 1;
    Take(message);
    AttachIfSeamless();
    return EndIfComplete();
  }
  if (next_from_parent_.has_value() && note->value < *next_from_parent_) {
    return LeaveParent("it sent a packet again");
  }
  if (next_from_parent_.has_value()) next_from_parent_ = note->value + 1;
  if (note->value <= position_) return;  // the controller was quicker
  // Before it relies on its parent the controller sends it what is between.
  if (is_attached_) return LeaveParent("it left out a packet");
  next_from_parent_ = note->value + 1;
}

void TreeNode::AttachIfSeamless() {
  if (is_attached_ || !next_from_parent_.has_value() || position_ + 1 < *next_from_parent_) return;
  is_attached_ = true;
  (void)direct_.Send(MakeNote(TreeWord::kAttached, world_, position_));
}

void TreeNode::Take(const Message& packet) {
  ++position_;
  bytes_since_told_ += SizeOf(packet);
  if (children_ != nullptr && world_ == offer_.world) children_->PassOn(packet);
  const Status read = ReadPacket(packet, [this](Message message) { deliver_(std::move(message)); });
  if (!read.ok())
    log::Error("a packet of the controller cannot be read: ", lockstep::Message(read));
  AttachIfSeamless();
}

void TreeNode::LeaveParent(const std::string& why) {
  if (!why.empty())
    log::Warn(
        "commands come from the controller itself again: the parent in the "
        "tree is left, for ",
        why);
  if (parent_ != nullptr) (void)parent_->Send(MakeNote(TreeWord::kLeft, world_, 0));
  (void)direct_.Send(MakeNote(TreeWord::kReturned, world_, position_, {why}));
  DropParent();
}

void TreeNode::DropParent() {
  if (parent_ != nullptr) ++changes_;
  parent_.reset();
  next_from_parent_.reset();
  asked_at_.reset();
  has_told_of_silence_ = is_taken_over_ = false;
  if (std::exchange(is_attached_, false)) upstream_.SendAgain();
}

void TreeNode::EndIfComplete() {
  while (last_.has_value() && position_ >= *last_) {
    DropParent();
    world_ = 0;
    last_.reset();
    std::deque<Message> held = std::exchange(held_, {});
    for (Message& message : held) TakeDirect(std::move(message));
  }
}

void TreeNode::SendUp(const Message& bundle) {
  // Those with answers are kept, and leave once it is known which way.
  if (is_attached_ && !is_taken_over_) return;
  ClientChannel& up = is_attached_ ? *parent_ : direct_;
  (void)up.Send(bundle);
}

}  // namespace lockstep::control
