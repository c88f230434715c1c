// The controller's channel to its workers, of which many may be reached through others: what is for
// all of them goes to few, which pass it on.
//
// It stands in front of a channel that reaches each worker. Who is in the tree it is told with each
// world (Arrange()); that tree is used from the first message on that is for all in it, and ends
// with the first that is for one of them alone: a welcome, or a word that the cluster ends.
// Whatever goes which way, a worker gets it in the order in which it was sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/tree/answer_collector.h"
#include "runtime/control/tree/packet.h"
#include "runtime/control/tree/replay_log.h"
#include "runtime/control/tree/tree_keys.h"
#include "runtime/control/tree/tree_note.h"

namespace lockstep::control {

// Threads: one at a time.
class TreeServerChannel final : public ServerChannel {
 public:
  // Each worker passes on to at most `fan_out` others, 2 or more. `most_replay_bytes`: of packets
  // that are kept for workers that lose their parents.
  TreeServerChannel(std::unique_ptr<ServerChannel> sockets, int fan_out,
                    size_t most_replay_bytes = size_t{64} << 20);
  ~TreeServerChannel() override;

  // There is another world, whose members are told so next, each by a message of its own. Those of
  // `peers` can be in a tree, in this order; if they are no more than the fan-out, there is none.
  void Arrange(const std::vector<PeerName>& peers);
  // For the welcome of a peer; none: it is not in the tree.
  std::optional<TreeOffer> OfferTo(const PeerName& peer);
  // The peer is lost. Those that it has passed packets to get them from here.
  void GiveUp(const PeerName& peer);
  // The peer does not get what was sent: it gets it from here. False: it does already.
  bool Reparent(const PeerName& peer);
  // Whether packets reach it through another worker.
  bool IsBelowAnother(const PeerName& peer) const;
  // A peer that says what cannot be, or cannot be brought up to date, and why. Each once.
  struct Broken {
    PeerName peer;
    Status why;
  };
  std::vector<Broken> TakeBroken() { return std::exchange(broken_, {}); }

  bool HasInput() override;
  int wait_fd() const override { return sockets_->wait_fd(); }
  bool drained() const override {
    return packet_.empty() && answers_.empty() && sockets_->drained();
  }
  void BeginSleep() override;
  void EndSleep() override { sockets_->EndSleep(); }
  const std::string& endpoint() const override { return sockets_->endpoint(); }
  Status Send(absl::Span<const PeerName> peers, const Message& message) override;
  bool Receive(PeerName* from, Message* message) override;
  // Null of what has come by way of others.
  const Identity* sender() const override { return by_tree_ ? nullptr : sockets_->sender(); }
  std::string SenderAddress() const override { return by_tree_ ? "" : sockets_->SenderAddress(); }

 private:
  // What is known of a worker for as long as it is counted on.
  struct Worker {
    PeerName peer;
    uint64_t number = 0;
    AnswerKey key;
    uint64_t consumed = 0;  // packets that it and all below it have got
    // When a worker last joined those below it: what it tells up to this packet may have left it
    // before it knew of that one.
    uint64_t doubted_until = 0;
    uint64_t sent = 0;     // the last packet that was sent to it from here
    uint64_t bundles = 0;  // that have come from it, without a gap, ...
    uint64_t told = 0;     // ... and those that it knows of
    bool has_gap = false;  // it was told to say again what was lost after those
    // The last tree that ended while it got packets from another worker, that one's last packet,
    // and the last of those that were sent to it from here.
    uint64_t left_world = 0;
    uint64_t left_at = 0;
    uint64_t left_sent = 0;
  };
  struct Place {
    Worker* worker = nullptr;  // null: lost
    uint64_t number = 0;       // of that worker, also when it is lost
    int parent = -1;           // -1: this controller
    // kHere: gets packets from here. kBelow: from its parent. kReturning: it was told to say how
    // far it is.
    enum class By { kHere, kBelow, kReturning };
    By by = By::kHere;
    bool is_known = false;  // it has said where it is
    bool is_child = false;  // its parent was told to let it in
    std::string endpoint = {};
    std::string key = {};        // for children
    std::string child_key = {};  // as a child
  };
  struct Tree {
    uint64_t world = 0;  // 0: there is none
    std::vector<Place> places;
    std::unordered_map<PeerName, int> index;

    Place* Find(const PeerName& peer);
  };
  // What a set of peers is to the tree.
  enum class Reach { kAll, kSome, kNone };

  Reach ReachOf(absl::Span<const PeerName> peers);
  Worker& WorkerOf(const PeerName& peer);
  void Say(const PeerName& peer, TreeWord word, uint64_t world, uint64_t value,
           std::initializer_list<std::string_view> texts = {});

  void Activate();
  void Dissolve();
  void Add(const Message& message);
  void Seal();
  void SendPacket(Message packet);
  // Packets after `after` and `sent` up to `until`, to a worker that has no others.
  void Replay(const Worker& worker, uint64_t after, uint64_t until, uint64_t& sent);
  void Detach(int place);
  void Break(const PeerName& peer, const Status& why);
  void ForgetConsumed();

  // True if `message` was the tree's own.
  bool TakeNote(const PeerName& from, const Message& message);
  void TakeHere(Tree& tree, int place, const Message& message);
  void Introduce(Tree& tree, int child);
  // The numbers of the worker at a place and of all below it, as they are in a note.
  std::string NumbersFrom(const Tree& tree, size_t place) const;
  void TakeAttached(int place, uint64_t position);
  void TakeReturned(Worker& worker, const TreeNote& note, const Message& message);
  void TakeBundle(Worker& worker, const TreeNote& note, const Message& message);
  // An answer that `by` has said, or passed on, cannot be taken.
  void TakeFault(const AnswerCollector::Fault& fault, const Worker& by);
  // Whether what `peer` says may come by way of `other`.
  bool IsAbove(const Worker& other, const PeerName& peer);

  const std::unique_ptr<ServerChannel> sockets_;
  // A place's children are the `fan_out_` from this one on; so many are at the top.
  size_t FirstBelow(size_t place) const { return (place + 1) * static_cast<size_t>(fan_out_); }
  const int fan_out_;
  const StreamSigner signer_;
  uint64_t last_world_ = 0;
  Tree tree_;  // in use
  Tree next_;  // arranged
  std::unordered_map<PeerName, std::unique_ptr<Worker>> workers_;
  uint64_t last_worker_ = 0;

  PacketWriter packet_;
  ReplayLog log_;
  // Names of those that get packets from here.
  std::vector<PeerName> here_;
  bool here_is_known_ = false;
  // What ReachOf() has said last, and of whom.
  std::vector<PeerName> asked_;
  Reach reach_ = Reach::kNone;
  std::vector<PeerName> others_;  // of those, who are in no tree

  AnswerCollector answers_;
  std::vector<Broken> broken_;
  bool by_tree_ = false;  // the message that was received last
};

}  // namespace lockstep::control
