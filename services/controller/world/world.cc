#include "services/controller/world/world.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/base/shared_segment.h"
#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/tree/tree_offer_codec.h"
#include "runtime/control/value_codec.h"
#include "schemas/control.capnp.h"
#include "services/controller/sessions/restored_sessions.h"
#include "services/controller/world/worker_end.h"

namespace lockstep::controller {
namespace {

// Removes what a killed worker left in this host's memory; a live one's is not touched.
void SweepMemoryOf(const Membership::Member& member) {
  if (!member.facts.segment.empty() && member.facts.host_id == ThisHost().id) {
    SharedSegment::Sweep(member.facts.segment);
  }
}

// What a lost worker did, for people.
std::string DescribeLast(const LastHeard& last) {
  if (last.activity.kind == WorkerActivity::Kind::kNone) return "";
  if (last.is_present) return "; it was executing " + last.activity.Describe();
  return "; at its last heartbeat, " + std::to_string(last.heartbeat_age.count()) +
         " ms before, it was executing " + last.activity.Describe();
}

// What a client is told beside how it was lost.
std::string DescribeEvidence(const WorkerLoss& loss, const std::string& cluster) {
  std::string text;
  if (!loss.hint.empty()) text += "; " + loss.hint;
  if (loss.log_tells) text += "; " + WhereItsLogIs(loss.rank, cluster);
  return text;
}

}  // namespace

World::World(const Tools& tools, Outbox& outbox, Liveness& liveness, Membership& membership,
             const BatchOrder& order, ControllerAddress address, const Sessions& sessions,
             ReadyWaiters& waiters, CommandRings& rings, CommandTree& tree)
    : tools_(tools),
      outbox_(outbox),
      liveness_(liveness),
      membership_(membership),
      order_(order),
      address_(std::move(address)),
      sessions_(sessions),
      waiters_(waiters),
      rings_(rings),
      tree_(tree),
      connections_(tools.options.workers, 4 * tools.options.worker_timeout) {
  membership_.SetEpoch(address_.incarnation);
}

void World::StartIfComplete() {
  if (!membership_.AllPresent()) return;
  std::vector<Rank> newcomers;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    if (!membership_.IsWelcome(rank)) newcomers.push_back(rank);
  }
  tools_.tracing.Mark("workers connect anew");
  // What each has of restored sessions is known; of those that are open here, newcomers have
  // nothing.
  std::vector<Rank> forgetful = newcomers;
  if (std::exchange(is_first_, false)) {
    membership_.SetEpoch(std::max(address_.incarnation, EpochAfterInventories()));
    forgetful = RestoreSessions();
  } else {
    membership_.SetEpoch(std::max(
        {tools_.clock.NewEpoch(), Epoch(membership_.epoch().value + 1), EpochAfterInventories()}));
    NoteNewcomers(newcomers);
    tools_.counts.workers_replaced.Add(newcomers.size());
  }
  membership_.WelcomeAll();
  for (const Rank rank : newcomers) liveness_.ExpectHeartbeats(rank);
  tree_.Arrange(PeersOfTree());
  const control::Frame arenas = EncodeArenas();
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const bool forget = std::find(forgetful.begin(), forgetful.end(), rank) != forgetful.end();
    outbox_.ToWorker(membership_.member(rank).peer,
                     control::Message{WelcomeFor(rank, forget), arenas});
  }
}

std::vector<control::PeerName> World::PeersOfTree() const {
  std::vector<control::PeerName> peers;
  const bool has_rings = tools_.options.command_rings != "off";
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const Membership::Member& member = membership_.member(rank);
    const bool may_have_ring = has_rings && member.facts.host_id == ThisHost().id;
    // A host that has another name in its container may have one all the same.
    const bool has_ring = rings_.PathTo(member.peer) == MessagePath::kRing;
    if (member.facts.relays && !may_have_ring && !has_ring) peers.push_back(member.peer);
  }
  return peers;
}

control::Frame World::EncodeArenas() const {
  return control::EncodeMessage<wire::Arenas>([&](wire::Arenas::Builder arenas) {
    auto segments = arenas.initSegments(static_cast<unsigned>(membership_.size()));
    for (Rank rank = 0; rank < membership_.size(); ++rank) {
      segments.set(static_cast<unsigned>(rank), membership_.member(rank).facts.segment);
    }
  });
}

Epoch World::EpochAfterInventories() const {
  Epoch last;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const std::optional<Inventory>& kept = membership_.member(rank).facts.inventory;
    if (!kept.has_value()) continue;
    last = std::max({last, kept->epoch, kept->worked_epoch, kept->controller});
  }
  return Epoch(last.value + 1);
}

std::vector<Rank> World::RestoreSessions() {
  std::vector<const Inventory*> inventories;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const std::optional<Inventory>& inventory = membership_.member(rank).facts.inventory;
    inventories.push_back(inventory.has_value() ? &*inventory : nullptr);
  }
  inventories = CountingInventories(std::move(inventories));
  sessions_.takeover.Restore(inventories);
  std::vector<Rank> with_nothing;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    if (inventories[static_cast<size_t>(rank)] == nullptr) with_nothing.push_back(rank);
  }
  return with_nothing;
}

void World::NoteNewcomers(const std::vector<Rank>& newcomers) {
  for (auto& [id, session] : sessions_.table.all()) {
    for (const Rank rank : newcomers) {
      session.replaced[rank] = session.commands.next_command();
      session.commands.Join(rank);
      session.come_to[static_cast<size_t>(rank)] = session.generation;
    }
  }
}

control::Frame World::WelcomeFor(Rank rank, bool forget) {
  std::vector<control::SessionRecord> records;
  for (const auto& [id, session] : sessions_.table.all()) {
    if (session.ending.has_value()) continue;  // those who had it have been told to close it
    records.push_back(session.Record());
    records.back().consumed_bytes = session.commands.sent_bytes();
  }
  const control::PeerName& peer = membership_.member(rank).peer;
  // One of the two: what comes by ring needs no relay.
  const std::optional<control::TreeOffer> place = tree_.OfferTo(peer);
  const std::optional<control::RingOffer> ring =
      place.has_value() ? std::nullopt : rings_.OfferTo(peer);
  return control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder envelope) {
    envelope.setEpoch(membership_.epoch().value);
    auto welcome = envelope.initWelcome();
    welcome.setVersion(kProtocolVersion);
    welcome.setRank(rank);
    welcome.setLivenessEndpoint(address_.liveness_endpoint);
    welcome.setHeartbeatMillis(static_cast<uint32_t>(tools_.options.heartbeat_interval.count()));
    welcome.setFlowWindowBytes(tools_.options.flow_window_bytes);
    welcome.setCollectiveTimeoutMillis(
        static_cast<uint64_t>(tools_.options.collective_timeout.count()));
    welcome.setCluster(tools_.options.cluster);
    welcome.setWatch(membership_.member(rank).watch.value);
    welcome.setController(address_.incarnation.value);
    welcome.setSequence(order_.last());
    welcome.setForget(forget);
    welcome.setCommunicator(tools_.options.communicator);
    welcome.setClientEndpoint(address_.client_endpoint);
    if (ring.has_value()) {
      welcome.setRingAddress(ring->address);
      welcome.setRingNonce(ring->nonce);
    }
    if (place.has_value()) control::WriteTreeOffer(*place, welcome.initRelayTree());
    auto host = welcome.initControllerHost();
    host.setName(ThisHost().name);
    host.setId(ThisHost().id);
    auto list = welcome.initSessions(static_cast<unsigned>(records.size()));
    for (unsigned i = 0; i < list.size(); ++i) control::WriteSessionRecord(list[i], records[i]);
  });
}

void World::HandleReady(Rank rank, wire::Ready::Reader ready) {
  // Of a world that has lost a worker since: there will be another.
  if (ready.getEpoch() != membership_.epoch().value) return;
  membership_.MarkReady(rank, control::ToString(ready.getBackend()),
                        control::ToString(ready.getWhy()));
  if (!membership_.AllReady()) return;
  log::Info("all ", membership_.size(), " workers are ready");
  connections_.Restart(tools_.clock.Now());
  sessions_.leases.Renew();
  for (auto& [id, session] : sessions_.table.all()) {
    sessions_.messenger.TellReplaced(session);
    // A reset that a newcomer has executed before it was heard may have left its abort behind.
    if (!session.failure.ok()) sessions_.failures.AbortOnWorkers(session);
  }
  waiters_.AnswerAll(OkStatus());
  sessions_.opener.OpenWaiting();
}

void World::HandleTrouble(Rank rank, wire::Trouble::Reader trouble) {
  if (trouble.getEpoch() != membership_.epoch().value) return;
  const std::string why = control::ToString(trouble.getWhy());
  log::Warn(log::OfRank(rank), "worker is not connected yet: ", why);
  membership_.NoteTrouble(rank, why);
}

void World::HandleGoodbye(Rank rank, const std::string& why) {
  HandleLost(
      {rank, membership_.member(rank).watch, "it left: " + why, liveness_.LastHeardOf(rank)});
}

Status World::HandleAwait(const control::PeerName& client, wire::AwaitWorkers::Reader await) {
  // First, so that a client without a session costs no look at processes.
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry* const session,
                            sessions_.table.FindOpen(SessionId(await.getSession()), client));
  session->last_heard = tools_.clock.Now();
  NoticeLosses();  // a worker that has just been killed is not ready
  waiters_.Handle(*session, await);
  return OkStatus();
}

void World::NoticeLosses() {
  for (const WorkerLoss& loss : liveness_.TakeLosses()) {
    // The rank may be another worker's by now.
    if (membership_.member(loss.rank).watch != loss.watch) continue;
    HandleLost(loss);
  }
}

void World::NoticeBrokenConnections() {
  connections_.Begin(tools_.clock.Now(), order_.last());
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const WorkerActivity activity = liveness_.LastHeardOf(rank).activity;
    const Membership::Member& member = membership_.member(rank);
    // What another rank holds back is not due yet.
    const bool is_due =
        member.state == Membership::State::kReady && !rings_.IsHeldBack(member.peer);
    if (!connections_.IsBroken(rank, is_due, activity)) continue;
    if (tree_.Reparent(member.peer)) {
      log::Warn(log::OfRank(rank), "worker ", connections_.Describe(activity),
                "; it gets commands from here again, not from another worker");
      connections_.Forgive(rank);
      continue;
    }
    WorkerLoss loss = liveness_.GiveUp(rank, connections_.Describe(activity));
    loss.may_live = true;
    HandleLost(loss);
  }
}

void World::HandleBrokenRing(const control::PeerName& worker, const Status& why) {
  GiveUpWorker(
      worker,
      "what it writes to the memory it shares with the controller makes no sense: " + Message(why));
}

void World::HandleBrokenPlace(const control::PeerName& worker, const Status& why) {
  GiveUpWorker(worker, "it cannot go on in the tree of relays: " + Message(why));
}

void World::GiveUpWorker(const control::PeerName& worker, const std::string& why) {
  const Rank rank = membership_.FindPeer(worker);
  if (rank < 0 || !membership_.IsWelcome(rank)) return;
  WorkerLoss loss = liveness_.GiveUp(rank, why);
  loss.may_live = true;
  HandleLost(loss);
}

void World::ComesBack(Rank rank, const std::string& reason) {
  WorkerLoss loss = liveness_.GiveUp(rank, reason);
  loss.comes_back = true;
  HandleLost(loss);
}

void World::FreeRank(Rank rank, const std::string& reason) {
  const Membership::Member& member = membership_.member(rank);
  log::Warn(log::OfRank(rank), "worker (", ProcessLabel(member.facts.host, member.facts.pid),
            ") is free again, its worker is gone before all had joined: ", reason);
  SweepMemoryOf(member);
  liveness_.Forget(rank);
  membership_.SetWatch(rank, WatchId());
  membership_.Free(rank, reason);
}

void World::HandleLost(const WorkerLoss& loss) {
  const Rank rank = loss.rank;
  const std::string& reason = loss.reason;
  const LastHeard& last = loss.last;
  const Membership::Member& member = membership_.member(rank);
  if (member.state == Membership::State::kWaiting) return FreeRank(rank, reason);
  if (!membership_.IsWelcome(rank)) return;
  const std::string label = ProcessLabel(member.facts.host, member.facts.pid);
  log::Error(log::OfRank(rank), "worker (", label, ") is lost: ", reason);
  membership_.MarkLost(rank, loss.likely_cause.empty() ? reason : reason + "; " + loss.likely_cause,
                       loss.may_live);
  tools_.counts.workers_lost.Add();
  tools_.tracing.Mark("worker lost");
  liveness_.BreakWorld(membership_.epoch());
  rings_.GiveUp(member.peer);
  tree_.GiveUp(member.peer);
  SweepMemoryOf(member);
  control::RemoteError cause = control::ErrorOf(
      Unavailable("worker rank ", rank, " (", label, ") is lost: ", reason, DescribeLast(last),
                  DescribeEvidence(loss, tools_.options.cluster),
                  loss.comes_back ? "" : membership_.Replacement(rank)));
  cause.rank = rank;
  for (const SessionId id : sessions_.table.Ids()) {
    SessionEntry& session = *sessions_.table.Find(id);
    // A heartbeat's news are old: the place is told only where it is known.
    const bool was_in_it = last.is_present && last.activity.session == id &&
                           last.activity.kind != WorkerActivity::Kind::kNone;
    cause.command = was_in_it ? last.activity.command : 0;
    cause.function = was_in_it ? last.activity.WhatAndPlace() : "";
    // A loss outlives a reset, so it replaces a lesser cause only for requests that still wait.
    sessions_.failures.Fail(session, cause);
    sessions_.gatherer.FailAll(id, cause);
    // A client that waits for room must not wait for a lost worker.
    session.commands.Leave(rank);
    sessions_.messenger.TellCredit(session);
    if (session.ending.has_value()) sessions_.ender.NoteClosed(session, rank, cause);
  }
}

void World::Shutdown(const std::string& reason) {
  const control::Frame frame =
      control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder envelope) {
        envelope.setEpoch(membership_.epoch().value);
        envelope.setShutdown(reason);
      });
  for (const control::PeerName& peer : membership_.PeersAndCandidates()) {
    outbox_.ToWorker(peer, frame);
  }
}

}  // namespace lockstep::controller
