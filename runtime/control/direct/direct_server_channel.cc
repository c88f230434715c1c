#include "runtime/control/direct/direct_server_channel.h"

#include <vector>

namespace lockstep::control {
namespace {

// Asking others takes as long as a message of a client of this process. So they are asked in one of
// so many looks, and by whoever is about to sleep. A look that finds a message takes longer, and
// counts as several: else others would wait long while clients of this process have much to say.
constexpr unsigned kOthersEvery = 32;
constexpr unsigned kLooksOfMessage = 4;

}  // namespace

PeerName DirectServerChannel::Add(std::shared_ptr<DirectInbox> inbox) {
  // No socket's peer can have such a name: those that begin with a zero ZeroMQ gives, of 5 bytes.
  PeerName name = PeerName("\0direct ", 8) + std::to_string(++added_);
  inboxes_.emplace(name, std::move(inbox));
  return name;
}

void DirectServerChannel::Remove(const PeerName& client) { inboxes_.erase(client); }

Status DirectServerChannel::Send(absl::Span<const PeerName> peers, const Message& message) {
  // A controller by itself has no such clients.
  if (inboxes_.empty()) return others_->Send(peers, message);
  std::vector<PeerName> others;
  for (const PeerName& peer : peers) {
    const auto found = inboxes_.find(peer);
    if (found == inboxes_.end()) {
      others.push_back(peer);
    } else {
      (void)found->second->Put(message, most_unread_);
    }
  }
  return others.empty() ? OkStatus() : others_->Send(others, message);
}

bool DirectServerChannel::HasInput() {
  if (!said_.empty()) return true;
  others_are_due_ = others_->HasInput();
  return others_are_due_;
}

bool DirectServerChannel::Receive(PeerName* from, Message* message) {
  looks_ += said_.empty() ? 1 : kLooksOfMessage;
  const bool is_their_turn = looks_ >= kOthersEvery;
  if (is_their_turn) looks_ = 0;
  if (is_their_turn || (others_are_due_ && said_.empty())) {
    others_are_due_ = others_->Receive(from, message);
    last_is_direct_ = !others_are_due_;
    if (others_are_due_) return true;
  }
  if (said_.empty()) return false;
  *from = std::move(said_.front().first);
  *message = std::move(said_.front().second);
  said_.pop_front();
  last_is_direct_ = true;
  return true;
}

std::string DirectServerChannel::SenderAddress() const {
  return last_is_direct_ ? "this process" : others_->SenderAddress();
}

}  // namespace lockstep::control
