// A worker's place in the tree: takes packets from its parent or from the controller itself, checks
// them, passes them on, and hands out what is in them; passes answers up.
//
// Every worker begins as a child of the controller's, which sends it all packets. Once its parent
// sends it what follows the last packet that it has got, it says so, and the controller stops. If
// that parent is lost, or sends what the controller has not signed, or leaves something out, the
// worker is a child of the controller's again, from the packet on that it has got last.
//
// What it says goes through its parent only after the controller has said that all which the worker
// has said itself has come: what two connections bring may be read in any order. In between it is
// held back.
//
// A relay passes on nothing that it has not checked, so that what a hostile one makes up ends at
// its children.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/gate.h"
#include "runtime/control/tree/child_links.h"
#include "runtime/control/tree/tree_note.h"
#include "runtime/control/tree/upstream.h"

namespace lockstep::control {

// How a worker is connected with others in the tree.
struct TreeConnections {
  ListenForChildren listen;
  // `credentials` are null where no key is asked for.
  std::function<StatusOr<std::unique_ptr<ClientChannel>>(const std::string& endpoint,
                                                         CredentialSource credentials)>
      connect;
};

// Threads: one at a time. Nothing here waits.
class TreeNode {
 public:
  // `direct` is the worker's own connection with the controller, borrowed. `deliver` is given what
  // the controller says to this worker, in order.
  using Deliver = std::function<void(Message)>;
  TreeNode(ClientChannel& direct, TreeConnections connections, Deliver deliver);

  // The worker was welcomed into a world that has this tree; none, if its `world` is 0.
  void Begin(const TreeOffer& offer);
  // To the controller; leaves with the next Go().
  void Send(const Message& message) { upstream_.Add(message); }
  // The worker ends with the next Go(): all that it has said, and what it has passed on, leaves by
  // its own connection, as nobody may be there any more to be told that it goes another way.
  void End() { DropParent(); }
  // Takes what has come, and sends what is to be sent. Of those that say more and more it takes no
  // more at once than leaves the others, and this worker itself, their turn: then channels() have
  // input still.
  void Go();
  // Warns, once, of a parent that has not let this worker join for seconds: most likely it cannot
  // be reached. Returns when to look again, should nothing come until then.
  Deadline LookAtParent(Deadline::Clock::time_point now);
  // Those to sleep on after Go(). They change with each call of Begin() or Go().
  absl::InlinedVector<Channel*, 3> channels();

  // Grows when channels() are others than before.
  uint64_t changes() const { return changes_; }

  // It gets packets from another worker than the controller.
  bool is_below_another() const { return is_attached_; }
  size_t children() const { return children_ == nullptr ? 0 : children_->size(); }
  uint64_t position() const { return position_; }

 private:
  bool GoOnce();
  // The last packet that this worker and all below it have got.
  uint64_t Consumed() const;
  void TakeDirect(Message message);
  // Not while the tree's last packet is waited for, unless it is `due` before that.
  void TakeInOrder(const Message& message);
  bool IsDueBeforeTheEnd(const TreeNote& note) const;
  // A packet that is new here.
  void TakeFromController(const Message& packet, uint64_t number);
  void TakeFromParent(const Message& message);
  // The next packet: it is checked unless it comes from the controller itself.
  void Take(const Message& packet);
  void JoinParent(const Message& note);
  void TryToJoin();
  void AttachIfSeamless();
  // `why`: what is wrong with the parent; empty: the controller has said so.
  void LeaveParent(const std::string& why);
  // It counts for nothing any more; what may have been lost with it is said again.
  void DropParent();
  void EndIfComplete();
  void SendUp(const Message& bundle);
  // Bundles up to `number` have arrived.
  void NoteTaken(uint64_t number);

  ClientChannel& direct_;
  const TreeConnections connections_;
  const Deliver deliver_;
  KeyPair key_;  // shown to the parent
  TreeOffer offer_;
  Upstream upstream_;
  std::unique_ptr<ChildLinks> children_;

  uint64_t world_ = 0;            // of the packets that come now; 0: none do
  uint64_t position_ = 0;         // of the last one
  std::optional<uint64_t> last_;  // of this world, once that is known
  std::deque<Message> held_;      // what the controller has said after that
  uint64_t told_consumed_ = 0;
  uint64_t bytes_since_told_ = 0;

  std::unique_ptr<ClientChannel> parent_;
  uint64_t place_ = 0;                                   // as the parent knows this worker
  std::string parent_endpoint_;                          // for people
  std::optional<Deadline::Clock::time_point> asked_at_;  // to join it
  bool has_told_of_silence_ = false;
  // Of the first packet that the parent has yet to send; none: it has not said.
  std::optional<uint64_t> next_from_parent_;
  bool is_attached_ = false;
  bool is_taken_over_ = false;  // what this worker says goes through its parent
  uint64_t changes_ = 0;
};

}  // namespace lockstep::control
