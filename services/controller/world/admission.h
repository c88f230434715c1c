// How workers are admitted: one that asks to join is tried to be reached back, and gets a rank, is
// told to wait, or is refused.
#pragma once

#include <unordered_map>

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/membership.capnp.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tools.h"
#include "services/controller/world/world.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class Admission {
 public:
  Admission(const Tools& tools, Outbox& outbox, Liveness& liveness, Membership& membership,
            Reachability& reachability, World& world)
      : tools_(tools),
        outbox_(outbox),
        liveness_(liveness),
        membership_(membership),
        reachability_(reachability),
        world_(world) {}

  void HandleHello(const control::PeerName& peer, wire::Hello::Reader hello);
  // Of some workers it is known now whether they are reached.
  void HandleReachResults();

 private:
  // Gives it a rank, or refuses it, once it is known whether it is reached.
  void Consider(const control::PeerName& peer, const Candidate& candidate);
  // The controller can connect to where the worker says that clients reach it. One that is out of
  // reach is told so; one that is being tried is considered again when that is known.
  bool IsReached(const control::PeerName& peer, const Candidate& candidate);
  void TellToWait(const control::PeerName& peer);
  void Refuse(const control::PeerName& peer, const Status& why);
  // Frees the candidate's rank of a worker that waits for it, and has kept less of it: a newcomer,
  // or one that was lost before the candidate had the rank.
  void MakeWayFor(const Candidate& candidate);
  // True while it is not known whether the worker that has the rank lives (of one that takes any
  // rank: whether all do).
  bool MayGetARankSoon(const control::PeerName& peer, const Candidate& candidate);
  // True if the candidate is the very worker that has its rank: it lost sight of this controller.
  bool HasTheRank(const Candidate& candidate) const;

  const Tools& tools_;
  Outbox& outbox_;
  Liveness& liveness_;
  Membership& membership_;
  Reachability& reachability_;
  World& world_;
  std::unordered_map<control::PeerName, Candidate> being_reached_;
  // Workers that ask for a rank that is taken, and since when.
  std::unordered_map<control::PeerName, TimePoint> asking_since_;
};

}  // namespace lockstep::controller
