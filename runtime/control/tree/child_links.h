// The workers right below one in the tree: who has come, what they are sent, and how far they are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/tree/relay_gate.h"
#include "runtime/control/tree/tree_note.h"

namespace lockstep::control {

// Where children of a relay connect to.
struct RelayListener {
  std::unique_ptr<ServerChannel> channel;
  std::string endpoint;  // as others reach it
};
// Listens where `gate` lets in whom it knows, if that is a network.
using ListenForChildren = std::function<StatusOr<RelayListener>(const std::shared_ptr<Gate>& gate)>;

// Threads: one at a time.
class ChildLinks {
 public:
  // Of the tree `world`. The errors of `listen`.
  static StatusOr<std::unique_ptr<ChildLinks>> Open(uint64_t world,
                                                    const ListenForChildren& listen);

  ServerChannel& channel() { return *listener_.channel; }
  const std::string& endpoint() const { return listener_.endpoint; }
  std::string key() const { return gate_->own().public_key.Text(); }
  // The child at `place` may come, with that key, and bring answers of those `workers`.
  void Expect(uint64_t place, const std::string& key, std::vector<uint64_t> workers);
  // It is heard no more, and sent nothing.
  void Forget(uint64_t place);

  // Takes what has come; `take` is given bundles, with the child that has sent them. One that is
  // not taken, or has what the child may not say, is its last: it is told to return, so that what
  // it says counts as its own. At most so many messages; true: there was anything.
  using TakeBundle = std::function<Status(const PeerName&, uint64_t number, const Message&)>;
  bool Receive(int most, const TakeBundle& take);
  // Packets pass through here from the one after `position` on: who has asked to join joins now.
  void Start(uint64_t position);
  // The next one, for all who have joined.
  void PassOn(const Message& packet);
  // Bundles of `child` have arrived.
  void TellTaken(const PeerName& child, uint64_t number);

  // The last packet that this worker, which has got `own`, and all below it have got.
  uint64_t Consumed(uint64_t own) const;
  // Of those that have joined.
  size_t size() const { return names_.size(); }

 private:
  // One for each place, whatever connections come.
  struct Child {
    PeerName name;  // of the connection that has asked to join; empty: none
    uint64_t consumed = 0;
    uint64_t bundles = 0;           // number of the last one that came by that connection
    std::vector<uint64_t> workers;  // sorted
    bool is_expected = false;
    bool has_joined = false;
    bool is_shut_out = false;
  };

  ChildLinks(uint64_t world, RelayListener listener, std::shared_ptr<RelayGate> gate)
      : world_(world), listener_(std::move(listener)), gate_(std::move(gate)) {}

  void TakeJoin(const PeerName& from, const Message& message, uint64_t consumed);
  void JoinIfDue(Child& child);
  void TakeBundleOf(const PeerName& from, uint64_t number, const Message& bundle,
                    const TakeBundle& take);
  // Null: it has not asked to join.
  Child* Find(const PeerName& name);
  // The connection counts for nothing any more.
  void Remove(Child& child);
  void Say(const PeerName& name, TreeWord word, uint64_t value);

  const uint64_t world_;
  const RelayListener listener_;
  const std::shared_ptr<RelayGate> gate_;
  std::optional<uint64_t> position_;  // of the last packet that has passed; none: not started
  std::unordered_map<uint64_t, Child> children_;   // by place
  std::unordered_map<PeerName, uint64_t> places_;  // of connections that have asked to join
  std::vector<PeerName> names_;                    // of those that have joined
};

}  // namespace lockstep::control
