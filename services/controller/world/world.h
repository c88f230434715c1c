// How the world is put together, falls apart, and is mended: workers that were admitted
// (admission.h) are welcomed when all are there, get ready, are lost, and are replaced.
//
// Every welcome makes a world with an epoch of its own. The first is sent when the last rank has
// been asked for; another one, to all, when the last of the lost ranks has. Between the loss and
// the moment when all are ready again every session is failed, so nothing is executed that a
// newcomer could miss (docs/adr/0007-worlds-and-replaced-workers.md).
#pragma once

#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/membership.capnp.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/batch_order.h"
#include "services/controller/common/command_rings.h"
#include "services/controller/common/command_tree.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/gatherer.h"
#include "services/controller/sessions/session_ender.h"
#include "services/controller/sessions/session_failures.h"
#include "services/controller/sessions/session_leases.h"
#include "services/controller/sessions/session_opener.h"
#include "services/controller/sessions/session_table.h"
#include "services/controller/sessions/session_takeover.h"
#include "services/controller/world/connection_watch.h"
#include "services/controller/world/ready_waiters.h"

namespace lockstep::controller {

// Where others connect to, and the epoch in which this controller was started.
struct ControllerAddress {
  std::string liveness_endpoint;
  Epoch incarnation;
  std::string client_endpoint{};
  std::string worker_endpoint{};
};

// Threads: one at a time. What it is made of must outlive it.
class World {
 public:
  // What happens in the world is news for the sessions.
  struct Sessions {
    SessionTable& table;
    Gatherer& gatherer;
    ClientMessenger& messenger;
    SessionFailures& failures;
    SessionEnder& ender;
    SessionLeases& leases;
    SessionTakeover& takeover;
    SessionOpener& opener;
  };

  World(const Tools& tools, Outbox& outbox, Liveness& liveness, Membership& membership,
        const BatchOrder& order, ControllerAddress address, const Sessions& sessions,
        ReadyWaiters& waiters, CommandRings& rings, CommandTree& tree);

  // If all ranks are present: who waited is welcome, and all connect under a new epoch.
  void StartIfComplete();
  void HandleReady(Rank rank, wire::Ready::Reader ready);
  void HandleTrouble(Rank rank, wire::Trouble::Reader trouble);
  void HandleGoodbye(Rank rank, const std::string& why);
  // A client waits until all workers are ready.
  Status HandleAwait(const control::PeerName& client, wire::AwaitWorkers::Reader await);

  // What liveness has found and this has not heard of yet.
  void NoticeLosses();
  // Gives up workers that wait for commands and do not get those that were sent.
  void NoticeBrokenConnections();
  // What a worker has written to its ring makes no sense: it is given up.
  void HandleBrokenRing(const control::PeerName& worker, const Status& why);
  // What a worker says in the tree of relays cannot be, or what it lacks is kept no more: likewise.
  void HandleBrokenPlace(const control::PeerName& worker, const Status& why);
  // The worker of `rank` has lost what was sent to it, and joins anew.
  void ComesBack(Rank rank, const std::string& reason);
  // Before its welcome: the rank of a worker that has left is free again.
  void FreeRank(Rank rank, const std::string& reason);
  // Tells the workers that the cluster ends.
  void Shutdown(const std::string& reason);

 private:
  // Greater than any that a worker has been in that has come from another controller, whose clock
  // may have been ahead of this one's.
  Epoch EpochAfterInventories() const;
  // Returns the ranks that have come with nothing that counts.
  std::vector<Rank> RestoreSessions();
  // They have nothing of the sessions that are open.
  void NoteNewcomers(const std::vector<Rank>& newcomers);
  // All that can be in a tree of relays, by rank. Who may share memory with the controller is not.
  std::vector<control::PeerName> PeersOfTree() const;
  void GiveUpWorker(const control::PeerName& worker, const std::string& why);
  // The second frame of all welcomes.
  control::Frame EncodeArenas() const;
  // `forget`: what it holds is out of date.
  control::Frame WelcomeFor(Rank rank, bool forget);
  void HandleLost(const WorkerLoss& loss);

  const Tools& tools_;
  Outbox& outbox_;
  Liveness& liveness_;
  Membership& membership_;
  const BatchOrder& order_;
  const ControllerAddress address_;
  const Sessions sessions_;
  ReadyWaiters& waiters_;
  CommandRings& rings_;
  CommandTree& tree_;
  ConnectionWatch connections_;
  bool is_first_ = true;  // no world was started yet
};

}  // namespace lockstep::controller
