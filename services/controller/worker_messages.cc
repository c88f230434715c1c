// What the controller does with the workers' messages.
#include <spdlog/spdlog.h>

#include "runtime/base/shared_segment.h"
#include "runtime/control/host.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "services/controller/controller.h"

namespace lockstep::controller {
namespace {

// Removes what a killed worker left in this host's memory; a live one's is not touched.
void SweepMemoryOf(const Membership::Member& member) {
  if (!member.facts.segment.empty() && member.facts.host_id == control::ThisHost().id) {
    SharedSegment::Sweep(member.facts.segment);
  }
}

}  // namespace

Status Controller::HandleWorker(const control::PeerName& peer, const control::Message& message) {
  if (message.empty()) return InvalidArgument("an empty message");
  return control::DecodeMessage<wire::WorkerMessage>(
      message[0], [&](wire::WorkerMessage::Reader reader) -> Status {
        if (reader.isHello()) {
          HandleHello(peer, reader.getHello());
          return OkStatus();
        }
        const Rank rank = membership_.FindPeer(peer);
        if (reader.isGoodbye()) {
          // One that was refused says it, too.
          if (rank >= 0) HandleLost(rank, "it left: " + control::ToString(reader.getGoodbye()));
          return OkStatus();
        }
        if (rank < 0) return FailedPrecondition("its sender has not joined");
        switch (reader.which()) {
          case wire::WorkerMessage::READY:
            membership_.MarkReady(rank, control::ToString(reader.getReady().getBackend()));
            if (membership_.AllReady()) {
              spdlog::info("cluster {}: all {} workers are ready", options_.cluster,
                           membership_.size());
              OpenPendingSessions();
            }
            return OkStatus();
          case wire::WorkerMessage::REPLY: {
            auto reply = reader.getReply();
            control::RemoteError error;
            if (reply.hasError()) error = control::ReadError(reply.getError());
            if (RequestId(reply.getRequest()) == SessionEntry::kEndRequest) {
              SessionEntry* session = sessions_.Find(SessionId(reply.getSession()));
              if (session != nullptr && session->ending.has_value()) {
                NoteEnded(*session, rank, error);
              }
              return OkStatus();
            }
            gatherer_.Answer(SessionId(reply.getSession()), RequestId(reply.getRequest()), rank,
                             error, message.size() > 1 ? message[1] : control::Frame());
            return OkStatus();
          }
          case wire::WorkerMessage::FAILURE:
            HandleFailure(rank, reader.getFailure());
            return OkStatus();
          case wire::WorkerMessage::CONSUMED:
            HandleConsumed(rank, reader.getConsumed());
            return OkStatus();
          default:
            return Unimplemented("unknown kind of message ", static_cast<int>(reader.which()));
        }
      });
}

void Controller::HandleHello(const control::PeerName& peer, wire::Hello::Reader hello) {
  const Candidate candidate = ReadCandidate(hello);
  // Said again while it waits, as a sign of life.
  const Rank known = membership_.FindPeer(peer);
  if (known >= 0 && membership_.member(known).facts.wanted_rank == candidate.wanted_rank) {
    liveness_->NoteAlive(known);
    return;
  }
  // Whoever is in the way may have been killed a moment ago, and must not push others to ranks that
  // somebody else will ask for.
  if (!welcomed_) FreeRanksOfTheDead();
  const StatusOr<Rank> rank = membership_.Admit(peer, candidate);
  if (!rank.ok()) {
    spdlog::warn("worker {} is refused: {}", control::ProcessLabel(candidate.host, candidate.pid),
                 Message(rank.status()));
    (void)workers_->Send(
        {&peer, 1}, {control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder e) {
          e.setEpoch(epoch_.value);
          control::WriteError(e.initRefused().initError(), control::ErrorOf(rank.status()));
        })});
    return;
  }
  spdlog::info("rank {} is {} on {}", *rank, control::ProcessLabel(candidate.host, candidate.pid),
               candidate.device);
  watches_[static_cast<size_t>(*rank)] = liveness_->Watch(*rank, candidate.host_id, candidate.pid);
  if (!membership_.AllJoined() || welcomed_) return;
  // After the welcome a hole cannot be filled any more.
  FreeRanksOfTheDead();
  if (membership_.AllJoined()) WelcomeAll();
}

void Controller::FreeRanksOfTheDead() {
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    if (liveness_->HasEnded(rank)) FreeRank(rank, "its process has ended");
  }
}

void Controller::FreeRank(Rank rank, const std::string& reason) {
  const Membership::Member& member = membership_.member(rank);
  spdlog::warn("rank {} ({}) is free again, its worker is gone before all had joined: {}", rank,
               control::ProcessLabel(member.facts.host, member.facts.pid), reason);
  SweepMemoryOf(member);
  liveness_->Forget(rank);
  watches_[static_cast<size_t>(rank)] = WatchId();
  membership_.Free(rank);
}

void Controller::WelcomeAll() {
  welcomed_ = true;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const Membership::Member& member = membership_.member(rank);
    liveness_->ExpectHeartbeats(rank);
    const control::Frame frame =
        control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder envelope) {
          envelope.setEpoch(epoch_.value);
          auto welcome = envelope.initWelcome();
          welcome.setVersion(control::kProtocolVersion);
          welcome.setRank(rank);
          auto peers = welcome.initPeers(static_cast<unsigned>(membership_.size()));
          for (Rank r = 0; r < membership_.size(); ++r) {
            WritePeer(peers[static_cast<unsigned>(r)], r, membership_.member(r));
          }
          welcome.setLivenessEndpoint(liveness_endpoint_);
          welcome.setHeartbeatMillis(static_cast<uint32_t>(options_.heartbeat_interval.count()));
          welcome.setFlowWindowBytes(options_.flow_window_bytes);
          welcome.setCollectiveTimeoutMillis(
              static_cast<uint64_t>(options_.collective_timeout.count()));
          welcome.setCluster(options_.cluster);
          welcome.setWatch(watches_[static_cast<size_t>(rank)].value);
        });
    (void)workers_->Send({&member.peer, 1}, {frame});
  }
}

void Controller::HandleFailure(Rank rank, wire::Failure::Reader failure) {
  control::RemoteError error = control::ReadError(failure.getError());
  error.rank = rank;
  const Generation generation(failure.getGeneration());
  SessionEntry* session = sessions_.Find(error.session);
  if (session == nullptr || session->generation != generation) return;
  FailSession(*session, error, error.command);
}

void Controller::HandleConsumed(Rank rank, wire::Consumed::Reader consumed) {
  SessionEntry* session = sessions_.Find(SessionId(consumed.getSession()));
  if (session == nullptr) return;
  const uint64_t before = session->SlowestConsumed();
  uint64_t& bytes = session->consumed_bytes[static_cast<size_t>(rank)];
  if (bytes == SessionEntry::kConsumesNothing) return;  // the last words of a lost worker
  bytes = consumed.getBytes();
  if (session->SlowestConsumed() != before) SendCredit(*session);
}

void Controller::SendCredit(const SessionEntry& session) {
  SendToClient(session.client, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
                 auto credit = message.initCredit();
                 credit.setSession(session.id.value);
                 credit.setConsumedBytes(session.SlowestConsumed());
               })});
}

void Controller::HandleLost(Rank rank, const std::string& reason) {
  const Membership::Member& member = membership_.member(rank);
  if (member.state == Membership::State::kLost) return;
  if (!welcomed_) return FreeRank(rank, reason);
  const std::string label = control::ProcessLabel(member.facts.host, member.facts.pid);
  spdlog::error("rank {} ({}) is lost: {}", rank, label, reason);
  membership_.MarkLost(rank, reason);
  SweepMemoryOf(member);
  const WorkerActivity last = liveness_->LastHeardOf(rank).activity;
  const bool idle = last.kind == WorkerActivity::Kind::kNone;
  control::RemoteError cause =
      control::ErrorOf(Unavailable("worker rank ", rank, " (", label, ") is lost: ", reason,
                                   idle ? "" : "; it was last seen executing " + last.Describe()));
  cause.rank = rank;
  for (const SessionId id : sessions_.Ids()) {
    SessionEntry& session = *sessions_.Find(id);
    const bool was_in_it = !idle && last.session == id;
    cause.command = was_in_it ? last.command : 0;
    cause.function = was_in_it ? last.what : "";
    // A loss outlives a reset, so it replaces a lesser cause only for those who still wait.
    FailSession(session, cause);
    gatherer_.FailAll(id, cause);
    // A client that waits for room must not wait for the dead.
    session.consumed_bytes[static_cast<size_t>(rank)] = SessionEntry::kConsumesNothing;
    SendCredit(session);
    if (session.ending.has_value()) NoteEnded(session, rank, cause);
  }
  for (const PendingOpen& open : pending_opens_) Refuse(open.client, membership_.Whole());
  pending_opens_.clear();
}

}  // namespace lockstep::controller
