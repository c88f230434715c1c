// A controller's channel and the nodes of its workers, joined by queues in memory: nothing happens
// but what a test has happen, in the order that it chooses.
#pragma once

#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/control/channel.h"
#include "runtime/control/tree/tree_node.h"
#include "runtime/control/tree/tree_server_channel.h"

namespace lockstep::control {

inline Message TextMessage(const std::string& text) {
  return {Frame::Copy(text.data(), text.size())};
}
inline std::string TextOfMessage(const Message& message) {
  if (message.empty()) return "";
  return std::string(reinterpret_cast<const char*>(message[0].data()), message[0].size());
}

// One connection. Who listens is `server`.
struct FakeLink {
  std::deque<Message> down;
  bool is_open = true;
  // What becomes of a message on its way down; none: it passes.
  std::function<void(Message, std::deque<Message>&)> spoil_down = nullptr;
  std::function<void(Message, const std::function<void(Message)>&)> spoil_up = nullptr;
  size_t sent_down = 0;
  uint64_t interruptions = 0;
};

// What one peer says comes in order; whose is read first is left to chance, as with sockets.
struct FakeListener {
  explicit FakeListener(std::mt19937& chance) : random(chance) {}

  std::mt19937& random;
  std::map<PeerName, std::shared_ptr<FakeLink>> links;
  std::map<PeerName, std::deque<Message>> up;  // none is empty
  bool is_open = true;
};

class FakeServerChannel final : public ServerChannel {
 public:
  explicit FakeServerChannel(std::shared_ptr<FakeListener> listener)
      : listener_(std::move(listener)) {}
  ~FakeServerChannel() override { listener_->is_open = false; }

  bool HasInput() override { return !listener_->up.empty(); }
  int wait_fd() const override { return -1; }
  bool drained() const override { return listener_->up.empty(); }
  const std::string& endpoint() const override { return endpoint_; }
  Status Send(absl::Span<const PeerName> peers, const Message& message) override {
    for (const PeerName& peer : peers) {
      const auto link = listener_->links.find(peer);
      if (link == listener_->links.end() || !link->second->is_open) continue;
      ++link->second->sent_down;
      if (link->second->spoil_down != nullptr) {
        link->second->spoil_down(message, link->second->down);
      } else {
        link->second->down.push_back(message);
      }
    }
    return OkStatus();
  }
  bool Receive(PeerName* from, Message* message) override {
    auto& up = listener_->up;
    if (up.empty()) return false;
    const auto chosen = std::next(up.begin(), static_cast<long>(listener_->random() % up.size()));
    *from = chosen->first;
    *message = std::move(chosen->second.front());
    chosen->second.pop_front();
    if (chosen->second.empty()) up.erase(chosen);
    return true;
  }

 private:
  const std::shared_ptr<FakeListener> listener_;
  const std::string endpoint_ = "fake";
};

class FakeClientChannel final : public ClientChannel {
 public:
  FakeClientChannel(std::shared_ptr<FakeListener> listener, PeerName name)
      : listener_(std::move(listener)), name_(std::move(name)) {
    listener_->links[name_] = link_;
  }
  ~FakeClientChannel() override { link_->is_open = false; }

  bool HasInput() override { return !link_->down.empty(); }
  int wait_fd() const override { return -1; }
  bool drained() const override { return link_->down.empty(); }
  Status Send(const Message& message) override {
    const auto pass = [this](Message passed) {
      if (listener_->is_open) listener_->up[name_].push_back(std::move(passed));
    };
    if (link_->spoil_up != nullptr) {
      link_->spoil_up(message, pass);
    } else {
      pass(message);
    }
    return OkStatus();
  }
  bool Receive(Message* message) override {
    if (link_->down.empty()) return false;
    *message = std::move(link_->down.front());
    link_->down.pop_front();
    return true;
  }
  uint64_t interruptions() override { return link_->interruptions; }

 private:
  const std::shared_ptr<FakeListener> listener_;
  const PeerName name_;
  const std::shared_ptr<FakeLink> link_ = std::make_shared<FakeLink>();
};

// `workers` in a tree of `fan_out`, and what each of them has been told.
class TreeNetwork {
 public:
  struct Worker {
    PeerName peer;
    std::unique_ptr<FakeClientChannel> direct;
    std::unique_ptr<TreeNode> node;  // null: it is lost
    std::shared_ptr<FakeListener> relay;
    std::vector<std::string> heard;
    bool is_stopped = false;
  };

  explicit TreeNetwork(int workers, int fan_out, size_t most_replay_bytes = size_t{1} << 20,
                       unsigned seed = 1)
      : random_(seed) {
    auto sockets = std::make_unique<FakeServerChannel>(controller_);
    server_ = std::make_unique<TreeServerChannel>(std::move(sockets), fan_out, most_replay_bytes);
    for (int i = 0; i < workers; ++i) Add();
    Welcome();
  }

  TreeServerChannel& server() { return *server_; }
  Worker& at(size_t index) { return *workers_[index]; }
  size_t size() const { return workers_.size(); }
  // The connection of a worker with its parent in the tree.
  FakeLink& LinkOf(size_t parent, size_t child) {
    return *at(parent).relay->links.at(at(child).peer);
  }
  // What that worker was last told of its place, which is how it may speak.
  const TreeOffer& OfferOf(size_t worker) { return offers_[at(worker).peer]; }
  FakeLink& DirectLinkOf(size_t worker) { return *controller_->links.at(at(worker).peer); }

  // All join a new world: each is told so by a message of its own.
  void Welcome() {
    ++world_;
    server_->Arrange(Peers());
    for (const PeerName& peer : Peers()) {
      const std::string text = "welcome " + std::to_string(world_);
      offers_[peer] = server_->OfferTo(peer).value_or(TreeOffer());
      offers_by_welcome_[{peer, text}] = offers_[peer];
      ASSERT_TRUE(server_->Send({&peer, 1}, TextMessage(text)).ok());
    }
  }
  void Broadcast(const std::string& text) {
    if (peers_ == nullptr) peers_ = std::make_unique<std::vector<PeerName>>(Peers());
    ASSERT_TRUE(server_->Send(*peers_, TextMessage(text)).ok());
  }
  // The worker ends, with all that it had yet to pass on.
  void Lose(size_t index) {
    at(index).node.reset();
    at(index).direct.reset();
    peers_.reset();
    server_->GiveUp(at(index).peer);
  }
  void Replace(size_t index) {
    workers_[index] = nullptr;
    Add(index);
  }

  // Each takes what has come until nothing is under way any more.
  void Settle() {
    do {
      TakeAnswers();
      for (size_t i = 0; i < size(); ++i) Go(i);
    } while (IsAnythingUnderWay());
  }
  // One worker's turn.
  void Go(size_t index) {
    if (at(index).node != nullptr && !at(index).is_stopped) at(index).node->Go();
  }
  void TakeAnswers() {
    PeerName from;
    Message message;
    while (server_->HasInput()) {
      if (server_->Receive(&from, &message)) answers_[from].push_back(TextOfMessage(message));
    }
  }
  void Say(size_t index, const std::string& text) { at(index).node->Send(TextMessage(text)); }
  std::vector<std::string> AnswersOf(size_t index) { return answers_[at(index).peer]; }

  int CountBelowOthers() {
    int count = 0;
    for (size_t i = 0; i < size(); ++i) count += server_->IsBelowAnother(at(i).peer) ? 1 : 0;
    return count;
  }

 private:
  bool IsAnythingUnderWay() {
    for (const auto& worker : workers_) {
      if (worker->node == nullptr || worker->is_stopped) continue;
      for (Channel* channel : worker->node->channels()) {
        if (channel->HasInput()) return true;
      }
    }
    return server_->HasInput();
  }
  std::vector<PeerName> Peers() const {
    std::vector<PeerName> peers;
    for (const auto& worker : workers_) {
      if (worker->node != nullptr) peers.push_back(worker->peer);
    }
    return peers;
  }
  void Add(std::optional<size_t> at_index = {}) {
    auto made = std::make_unique<Worker>();
    Worker* const worker = made.get();
    worker->peer = "worker-" + std::to_string(++made_);
    worker->direct = std::make_unique<FakeClientChannel>(controller_, worker->peer);
    TreeConnections connections;
    connections.listen = [this, worker](const std::shared_ptr<Gate>&) -> StatusOr<RelayListener> {
      worker->relay = std::make_shared<FakeListener>(random_);
      const std::string endpoint = "relay-" + std::to_string(relays_.size());
      relays_[endpoint] = worker->relay;
      return RelayListener{std::make_unique<FakeServerChannel>(worker->relay), endpoint};
    };
    connections.connect = [this, worker](
                              const std::string& endpoint,
                              const CredentialSource&) -> StatusOr<std::unique_ptr<ClientChannel>> {
      return std::make_unique<FakeClientChannel>(relays_.at(endpoint), worker->peer);
    };
    // As a worker does, it takes its place when it takes its welcome.
    worker->node = std::make_unique<TreeNode>(*worker->direct, std::move(connections),
                                              [this, worker](const Message& message) {
                                                const std::string text = TextOfMessage(message);
                                                worker->heard.push_back(text);
                                                if (text.starts_with("welcome"))
                                                  welcomed_.emplace_back(worker->peer, text);
                                              });
    if (at_index.has_value()) {
      workers_[*at_index] = std::move(made);
    } else {
      workers_.push_back(std::move(made));
    }
    peers_.reset();
  }

 public:
  // Those that have read their welcome begin in the tree.
  void Begin() {
    for (const auto& welcome : std::exchange(welcomed_, {})) {
      const TreeOffer& offer = offers_by_welcome_[welcome];
      for (const auto& worker : workers_) {
        if (worker->peer != welcome.first || worker->node == nullptr) continue;
        worker->node->Begin(offer);
      }
    }
  }
  // Everybody is in the tree, and gets from its parent what is said from now on.
  void Join() {
    Settle();
    Begin();
    Broadcast("first");
    Settle();
  }

 private:
  std::mt19937 random_;
  const std::shared_ptr<FakeListener> controller_ = std::make_shared<FakeListener>(random_);
  std::unique_ptr<TreeServerChannel> server_;
  std::map<std::string, std::shared_ptr<FakeListener>> relays_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::pair<PeerName, std::string>> welcomed_;
  std::map<PeerName, TreeOffer> offers_;
  std::map<std::pair<PeerName, std::string>, TreeOffer> offers_by_welcome_;
  std::map<PeerName, std::vector<std::string>> answers_;
  std::unique_ptr<std::vector<PeerName>> peers_;  // as a controller keeps them
  int made_ = 0;
  int world_ = 0;
};

}  // namespace lockstep::control
