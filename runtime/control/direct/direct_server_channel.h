// The controller's channel to its clients, some of which are in its own process: these have no
// connection, but turn the controller's loop themselves. All others go by what stands behind it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/direct/direct_inbox.h"

namespace lockstep::control {

// Threads: one at a time: who holds the lock of the loop that reads it (shared_loop.h).
class DirectServerChannel final : public ServerChannel {
 public:
  // `most_unread`: messages that wait for one client that does not read; further ones to it are
  // lost, as those are that a socket does not take.
  DirectServerChannel(std::unique_ptr<ServerChannel> others, size_t most_unread)
      : others_(std::move(others)), most_unread_(most_unread) {}

  // A client of this process, and what it is called from now on.
  PeerName Add(std::shared_ptr<DirectInbox> inbox);
  void Remove(const PeerName& client);
  bool Has(const PeerName& peer) const { return inboxes_.contains(peer); }
  // `message` comes from that client; what is received next.
  void Put(const PeerName& client, const Message& message) { said_.emplace_back(client, message); }

  bool HasInput() override;
  int wait_fd() const override { return others_->wait_fd(); }
  bool drained() const override { return said_.empty() && others_->drained(); }
  void BeginSleep() override { others_->BeginSleep(); }
  void EndSleep() override { others_->EndSleep(); }
  void CancelSleep() override { others_->CancelSleep(); }
  bool HasInputAtHand() override { return !said_.empty() || others_->HasInputAtHand(); }
  const std::string& endpoint() const override { return others_->endpoint(); }
  Status Send(absl::Span<const PeerName> peers, const Message& message) override;
  bool Receive(PeerName* from, Message* message) override;
  // Null of clients of this process: they are trusted as it is.
  const Identity* sender() const override { return last_is_direct_ ? nullptr : others_->sender(); }
  std::string SenderAddress() const override;

 private:
  const std::unique_ptr<ServerChannel> others_;
  const size_t most_unread_;
  std::unordered_map<PeerName, std::shared_ptr<DirectInbox>> inboxes_;
  std::deque<std::pair<PeerName, Message>> said_;
  uint64_t added_ = 0;
  unsigned looks_ = 0;
  bool others_are_due_ = true;   // they had something when they were asked last
  bool last_is_direct_ = false;  // the message that was received last
};

}  // namespace lockstep::control
