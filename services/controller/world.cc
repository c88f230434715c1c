// How the world is put together, falls apart, and is mended: workers that were admitted
// (admission.cc) are welcomed when all are there, get ready, are lost, and are replaced.
//
// Every welcome makes a world with an epoch of its own. The first is sent when the last rank has
// been asked for; another one, to all, when the last of the lost ranks has. Between the loss and
// the moment when all are ready again every session is failed, so nothing is executed that a
// newcomer could miss.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/base/shared_segment.h"
#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"
#include "services/controller/controller.h"
#include "services/controller/epoch.h"

namespace lockstep::controller {
namespace {

// One per thread of the client that waits for the workers.
constexpr ptrdiff_t kMaxAwaiting = 256;

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

}  // namespace

void Controller::StartWorld() {
  std::vector<Rank> newcomers;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    if (!membership_.IsWelcome(rank)) newcomers.push_back(rank);
  }
  const bool is_first = !std::exchange(welcomed_, true);
  tracing_.Mark("workers connect anew");
  if (!is_first) epoch_ = std::max(NewEpoch(), Epoch(epoch_.value + 1));
  // Who has what of restored sessions is known; of those that are open here, newcomers have
  // nothing.
  const std::vector<Rank> forgetful = is_first ? RestoreSessions() : newcomers;
  if (!is_first) {
    NoteNewcomers(newcomers);
    metrics_.counts().workers_replaced.Add(newcomers.size());
  }
  membership_.WelcomeAll();
  for (const Rank rank : newcomers) liveness_->ExpectHeartbeats(rank);
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const bool forget = std::find(forgetful.begin(), forgetful.end(), rank) != forgetful.end();
    (void)workers_->Send({&membership_.member(rank).peer, 1}, {WelcomeFor(rank, forget)});
  }
}

void Controller::NoteNewcomers(const std::vector<Rank>& newcomers) {
  for (auto& [id, session] : sessions_.all()) {
    for (const Rank rank : newcomers) {
      session.replaced[rank] = session.next_command;
      session.consumed[static_cast<size_t>(rank)] = session.sent_bytes;
      session.come_to[static_cast<size_t>(rank)] = session.generation;
    }
  }
}

control::Frame Controller::WelcomeFor(Rank rank, bool forget) {
  std::vector<control::SessionRecord> records;
  for (const auto& [id, session] : sessions_.all()) {
    if (session.ending.has_value()) continue;  // those who had it have been told to close it
    records.push_back(session);
    records.back().consumed_bytes = session.sent_bytes;
  }
  return control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder envelope) {
    envelope.setEpoch(epoch_.value);
    auto welcome = envelope.initWelcome();
    welcome.setVersion(kProtocolVersion);
    welcome.setRank(rank);
    WritePeers(welcome.initPeers(static_cast<unsigned>(membership_.size())));
    welcome.setLivenessEndpoint(liveness_endpoint_);
    welcome.setHeartbeatMillis(static_cast<uint32_t>(options_.heartbeat_interval.count()));
    welcome.setFlowWindowBytes(options_.flow_window_bytes);
    welcome.setCollectiveTimeoutMillis(static_cast<uint64_t>(options_.collective_timeout.count()));
    welcome.setCluster(options_.cluster);
    welcome.setWatch(watches_[static_cast<size_t>(rank)].value);
    welcome.setController(incarnation_.value);
    welcome.setSequence(sequence_);
    welcome.setForget(forget);
    welcome.setCommunicator(options_.communicator);
    auto host = welcome.initControllerHost();
    host.setName(ThisHost().name);
    host.setId(ThisHost().id);
    auto list = welcome.initSessions(static_cast<unsigned>(records.size()));
    for (unsigned i = 0; i < list.size(); ++i) control::WriteSessionRecord(list[i], records[i]);
  });
}

void Controller::WritePeers(capnp::List<wire::Peer>::Builder peers) const {
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    WritePeer(peers[static_cast<unsigned>(rank)], rank, membership_.member(rank));
  }
}

void Controller::HandleReady(Rank rank, wire::Ready::Reader ready) {
  // Of a world that has lost somebody since: there will be another.
  if (ready.getEpoch() != epoch_.value) return;
  membership_.MarkReady(rank, control::ToString(ready.getBackend()),
                        control::ToString(ready.getWhy()));
  if (!membership_.AllReady()) return;
  log::Info("all ", membership_.size(), " workers are ready");
  // What was sent before is not due to those who have just come.
  due_ = next_due_ = 0;
  next_due_at_ = Deadline::After(DeliveryTime());
  for (auto& [id, session] : sessions_.all()) {
    TellReplaced(session);
    // Whoever wants to come back may do so from now on.
    const Deadline lease = Deadline::After(options_.session_lease);
    if (lease.when() > session.kept_until.when()) session.kept_until = lease;
    if (std::exchange(session.was_restored, false)) session.owner_until = lease;
    // A reset that a newcomer has executed before it was heard may have left its abort behind.
    if (!session.failure.ok()) {
      liveness_->Abort(id, session.generation, session.failed_from, session.failure);
    }
  }
  AnswerAwaiting(OkStatus());
  OpenPendingSessions();
}

void Controller::HandleTrouble(Rank rank, wire::Trouble::Reader trouble) {
  if (trouble.getEpoch() != epoch_.value) return;
  const std::string why = control::ToString(trouble.getWhy());
  log::Warn(log::OfRank(rank), "worker is not connected yet: ", why);
  membership_.NoteTrouble(rank, why);
}

void Controller::TellReplaced(SessionEntry& session) {
  if (session.replaced.empty()) return;
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto news = message.initWorkersReplaced();
         news.setSession(session.id.value);
         WritePeers(news.initWorkers(static_cast<unsigned>(membership_.size())));
         WriteReplaced(news.initReplaced(static_cast<unsigned>(session.replaced.size())), session);
       })});
}

void Controller::WriteReplaced(capnp::List<wire::Replacement>::Builder list,
                               const SessionEntry& session) {
  unsigned i = 0;
  for (const auto& [rank, from_command] : session.replaced) {
    list[i].setRank(rank);
    list[i++].setFromCommand(from_command);
  }
}

Status Controller::HandleAwait(const control::PeerName& client, wire::AwaitWorkers::Reader await) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            FindOpen(SessionId(await.getSession()), client));
  session->last_heard = Deadline::Clock::now();
  NoticeLosses();  // who has just been killed is not ready
  const RequestId request(await.getRequest());
  const auto count = std::count_if(awaiting_.begin(), awaiting_.end(),
                                   [&](const Awaiting& who) { return who.session == session->id; });
  if (count >= kMaxAwaiting) {
    Answer(client, session->id, request,
           control::ErrorOf(ResourceExhausted("session ", session->id, " waits for the workers ",
                                              count, " times already")));
    return OkStatus();
  }
  awaiting_.push_back({client, session->id, request, Timer(await.getTimeoutMillis())});
  if (membership_.AllReady()) AnswerAwaiting(OkStatus());
  return OkStatus();
}

void Controller::AnswerAwaiting(const Status& status) {
  for (const Awaiting& who : std::exchange(awaiting_, {})) {
    Answer(who.client, who.session, who.request, control::ErrorOf(status));
  }
}

void Controller::NoticeLosses() {
  std::vector<LivenessMonitor::Loss> lost = liveness_->TakeEnded();
  {
    std::lock_guard lock(events_mutex_);
    lost.insert(lost.end(), lost_events_.begin(), lost_events_.end());
    lost_events_.clear();
  }
  for (const LivenessMonitor::Loss& loss : lost) {
    // The rank may be somebody else's by now.
    if (watches_[static_cast<size_t>(loss.rank)] != loss.watch) continue;
    HandleLost(loss.rank, loss.reason, loss.last);
  }
}

void Controller::FreeRank(Rank rank, const std::string& reason) {
  const Membership::Member& member = membership_.member(rank);
  log::Warn(log::OfRank(rank), "worker (", ProcessLabel(member.facts.host, member.facts.pid),
            ") is free again, its worker is gone before all had joined: ", reason);
  SweepMemoryOf(member);
  liveness_->Forget(rank);
  watches_[static_cast<size_t>(rank)] = WatchId();
  membership_.Free(rank, reason);
}

void Controller::HandleLost(Rank rank, const std::string& reason, const LastHeard& last) {
  const Membership::Member& member = membership_.member(rank);
  if (member.state == Membership::State::kWaiting) return FreeRank(rank, reason);
  if (!membership_.IsWelcome(rank)) return;
  const std::string label = ProcessLabel(member.facts.host, member.facts.pid);
  log::Error(log::OfRank(rank), "worker (", label, ") is lost: ", reason);
  membership_.MarkLost(rank, reason);
  metrics_.counts().workers_lost.Add();
  tracing_.Mark("worker lost");
  liveness_->BreakWorld(epoch_);
  SweepMemoryOf(member);
  control::RemoteError cause = control::ErrorOf(
      Unavailable("worker rank ", rank, " (", label, ") is lost: ", reason, DescribeLast(last)));
  cause.rank = rank;
  for (const SessionId id : sessions_.Ids()) {
    SessionEntry& session = *sessions_.Find(id);
    // A heartbeat's news are old: the place is told only where it is known.
    const bool was_in_it = last.is_present && last.activity.session == id &&
                           last.activity.kind != WorkerActivity::Kind::kNone;
    cause.command = was_in_it ? last.activity.command : 0;
    cause.function = was_in_it ? last.activity.what : "";
    // A loss outlives a reset, so it replaces a lesser cause only for those who still wait.
    FailSession(session, cause);
    gatherer_.FailAll(id, cause);
    // A client that waits for room must not wait for the dead.
    session.consumed[static_cast<size_t>(rank)] = SessionEntry::kConsumesNothing;
    SendCredit(session);
    if (session.ending.has_value()) NoteEnded(session, rank, cause);
  }
}

}  // namespace lockstep::controller
