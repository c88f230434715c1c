// Who the workers are: admission, ranks, and the state of each.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/session_record.h"
#include "schemas/membership.capnp.h"
#include "services/controller/common/liveness.h"

namespace lockstep::controller {

// The workers that a batch goes to, as they were when it was put in order.
using WorkerPeers = std::shared_ptr<const std::vector<control::PeerName>>;

// What a worker has kept of the time under a controller that was lost.
struct Inventory {
  Epoch controller;    // in which that one was started
  Epoch epoch;         // of its last welcome
  Epoch worked_epoch;  // the same of when it has executed something last
  int world_size = 0;
  std::vector<control::SessionRecord> sessions;
};

// What a worker says of itself when it asks to join.
struct Candidate {
  uint32_t min_version = 0;
  uint32_t max_version = 0;
  std::string build;
  std::string cluster;
  Rank wanted_rank = -1;  // -1: any from first_rank on
  Rank first_rank = 0;
  std::string host;
  std::string host_id;
  int pid = 0;
  std::string device;
  std::string segment;
  std::string activity_segment;
  std::string bulk_endpoint;
  std::string bulk_key;
  std::string metrics_endpoint;
  bool relays = false;                 // it can be in a tree of relays
  std::optional<Inventory> inventory;  // none: it comes with nothing
};
Candidate ReadCandidate(wire::Hello::Reader hello);

// The world's members. Pure bookkeeping: no sockets, no clocks.
//
// Threads: one at a time.
class Membership {
 public:
  enum class State {
    kMissing,  // no worker has asked for the rank
    kWaiting,  // one has, and waits to be welcomed with all others
    kJoining,  // is welcome, and connects with the others
    kReady,
    kLost,  // was welcome, and is no more; another may ask for the rank
  };

  struct Member {
    State state = State::kMissing;
    control::PeerName peer;  // on the workers' command channel
    Candidate facts;
    WatchId watch;  // the watching of its present worker; none: it is not watched
    std::string backend;
    std::string connection;    // kReady: how the backend was chosen; else: what is in the way
    std::string lost_because;  // kLost; and kWaiting, if it is to replace a lost one
    // kLost, and kWaiting to replace a lost one: the worker that was lost, and whether its process
    // may be there, because nobody has seen it end.
    Candidate lost_facts;
    bool may_live = false;
  };

  // `replacement_hint`: see HowToReplace().
  Membership(std::string cluster, int workers, std::string replacement_hint = "")
      : cluster_(std::move(cluster)),
        replacement_hint_(std::move(replacement_hint)),
        members_(static_cast<size_t>(workers)) {}

  // Gives the candidate a rank: the one it wants, or the lowest of those it takes that no worker
  // has or whose worker is lost. A refusal says why: another cluster, no common protocol version, a
  // rank that does not exist or is taken, no room.
  StatusOr<Rank> Admit(const control::PeerName& peer, const Candidate& candidate);

  // The rank that Admit() would give to one that takes any from `first` on; -1: there is none.
  Rank LowestFree(Rank first) const;
  // True if every rank has a worker that lives, welcome or not; if every rank is ready.
  bool AllPresent() const;
  bool AllReady() const;
  // `rank` has a worker that was welcomed, and lives.
  bool IsWelcome(Rank rank) const;

  // All are present, and are told to connect: those that waited are welcome, and none is ready.
  // What they have brought along is forgotten.
  void WelcomeAll();
  // The world's, that of the last welcome.
  Epoch epoch() const { return epoch_; }
  void SetEpoch(Epoch epoch) { epoch_ = epoch; }
  void SetWatch(Rank rank, WatchId watch) { members_[static_cast<size_t>(rank)].watch = watch; }
  // The state change of `rank`; the caller got the rank from FindPeer.
  void MarkReady(Rank rank, const std::string& backend, const std::string& connection = "");
  void NoteTrouble(Rank rank, const std::string& trouble);
  // A worker that asks for `rank` (-1: for any) is not admitted yet, because it cannot be reached.
  void NoteOutOfReach(Rank rank, const std::string& why);
  void MarkLost(Rank rank, const std::string& reason, bool may_live);
  // The worker of `rank` has left before it was welcomed: the rank is as if it had not asked.
  void Free(Rank rank, const std::string& reason);

  // OK if the candidate could have a rank here, were one free.
  Status Check(const Candidate& candidate) const;
  // The name of a lost worker is not known any more.
  void ForgetName(const control::PeerName& peer) { ranks_.erase(peer); }

  // -1 if no member has this name.
  Rank FindPeer(const control::PeerName& peer) const;

  int size() const { return static_cast<int>(members_.size()); }
  const Member& member(Rank rank) const { return members_[static_cast<size_t>(rank)]; }
  // The channel names of all that are welcome, in rank order.
  const std::vector<control::PeerName>& peers() const { return *peers_; }
  // The same, as they are now for as long as it is kept.
  const WorkerPeers& welcome_peers() const { return peers_; }
  // ... and of those, too, that wait to be.
  std::vector<control::PeerName> PeersAndCandidates() const;

  // OK, or why the world is not whole: which worker is lost, and how it is replaced, or which have
  // not joined yet.
  Status Whole() const;
  // How another gets the rank of its worker that is lost, for the end of a message: "; start ...".
  // Empty if that is not known.
  std::string Replacement(Rank rank) const;
  // How its worker, which does not end what it executes, is ended and replaced.
  std::string Ending(Rank rank) const;

 private:
  static bool IsFree(const Member& member);
  void UpdatePeers();
  std::string Label(Rank rank) const;

  const std::string cluster_;
  const std::string replacement_hint_;
  Epoch epoch_;
  std::vector<Member> members_;
  WorkerPeers peers_ = std::make_shared<const std::vector<control::PeerName>>();
  // Of all members; of a lost one until another has its rank.
  std::unordered_map<control::PeerName, Rank> ranks_;
};

// Fills in a Peer for `member`; for all, in rank order.
void WritePeer(wire::Peer::Builder builder, Rank rank, const Membership::Member& member);
void WritePeers(capnp::List<wire::Peer>::Builder builders, const Membership& membership);

}  // namespace lockstep::controller
