// What the controller does with the clients' messages.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/control/host.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"
#include "services/controller/controller.h"

namespace lockstep::controller {
namespace {

using std::chrono::milliseconds;

// The longest that a client may ask the controller to wait; more is cut to this.
constexpr uint64_t kLongestWaitMillis = uint64_t{24} * 3600 * 1000;

Deadline After(uint64_t millis) {
  return Deadline::After(milliseconds(std::min(millis, kLongestWaitMillis)));
}

wire::WorkerStatus::State ToWire(Membership::State state) {
  switch (state) {
    case Membership::State::kMissing:
      return wire::WorkerStatus::State::MISSING;
    case Membership::State::kJoining:
      return wire::WorkerStatus::State::JOINING;
    case Membership::State::kReady:
      return wire::WorkerStatus::State::READY;
    case Membership::State::kLost:
      return wire::WorkerStatus::State::LOST;
  }
  return wire::WorkerStatus::State::MISSING;
}

}  // namespace

Status Controller::HandleClient(const control::PeerName& client, const control::Message& message) {
  if (message.empty()) return InvalidArgument("an empty message");
  return control::DecodeMessage<wire::ClientMessage>(
      message[0], [&](wire::ClientMessage::Reader reader) -> Status {
        switch (reader.which()) {
          case wire::ClientMessage::BATCH:
            return HandleBatch(client, reader.getBatch(), message);
          case wire::ClientMessage::OPEN_SESSION: {
            // Opened at once, or when all workers are ready: one path for both.
            const Deadline deadline = After(reader.getOpenSession().getTimeoutMillis());
            pending_opens_.push_back({client, message, deadline});
            OpenPendingSessions();
            return OkStatus();
          }
          case wire::ClientMessage::CLOSE_SESSION:
            HandleClose(client, reader.getCloseSession());
            return OkStatus();
          case wire::ClientMessage::RESET_SESSION:
            return HandleReset(client, reader.getResetSession());
          case wire::ClientMessage::KEEP_ALIVE: {
            LOCKSTEP_ASSIGN_OR_RETURN(
                SessionEntry * session,
                sessions_.FindOwned(SessionId(reader.getKeepAlive()), client));
            session->last_heard = Deadline::Clock::now();
            SendToClient(client, {control::EncodeMessage<wire::ControllerMessage>(
                                     [&](auto m) { m.setKeepAlive(session->id.value); })});
            return OkStatus();
          }
          case wire::ClientMessage::STATUS:
            SendStatus(client, reader.getStatus());
            return OkStatus();
          case wire::ClientMessage::SHUTDOWN: {
            const std::string reason = control::ToString(reader.getShutdown());
            SendToClient(client, {control::EncodeMessage<wire::ControllerMessage>(
                                     [&](auto m) { m.setShutdown(reason); })});
            RequestStop(reason);
            return OkStatus();
          }
        }
        return Unimplemented("unknown kind of message ", static_cast<int>(reader.which()),
                             "; this controller is Lockstep ", control::kBuildVersion);
      });
}

void Controller::OpenPendingSessions() {
  const Status whole = membership_.Whole();
  const bool hopeless = welcomed_ && !whole.ok() && !membership_.AllJoined();
  if (!whole.ok() && !hopeless) return;
  std::vector<PendingOpen> opens;
  opens.swap(pending_opens_);
  for (const PendingOpen& open : opens) {
    const Status status = hopeless ? whole
                                   : control::DecodeMessage<wire::ClientMessage>(
                                         open.message[0], [&](wire::ClientMessage::Reader reader) {
                                           return OpenSession(open.client, reader.getOpenSession());
                                         });
    if (!status.ok()) Refuse(open.client, status);
  }
}

Status Controller::OpenSession(const control::PeerName& client, wire::OpenSession::Reader open) {
  if (open.getMinVersion() > control::kProtocolVersion ||
      open.getMaxVersion() < control::kOldestProtocolVersion) {
    return FailedPrecondition("the client (Lockstep ", control::ToString(open.getBuild()),
                              ") speaks protocol versions ", open.getMinVersion(), " to ",
                              open.getMaxVersion(), ", this controller (Lockstep ",
                              control::kBuildVersion, ") ", control::kOldestProtocolVersion, " to ",
                              control::kProtocolVersion);
  }
  const uint32_t groups = open.getNumGroups();
  if (groups == 0 || static_cast<uint32_t>(membership_.size()) % groups != 0) {
    return InvalidArgument("num_groups is ", groups, ", which does not divide the ",
                           membership_.size(), " workers");
  }
  SessionEntry& session = sessions_.Open(client);
  session.name = control::ToString(open.getName());
  session.host = control::ToString(open.getHost().getName());
  session.host_id = control::ToString(open.getHost().getId());
  session.pid = open.getPid();
  session.num_groups = static_cast<int>(groups);
  spdlog::info("session {} \"{}\" opened by {}", session.id.value, session.name,
               control::ProcessLabel(session.host, session.pid));

  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    auto begin = command.initOpenSession();
    begin.setNumGroups(groups);
    begin.setClientPid(session.pid);
    begin.setClientHost(session.host_id);
  });
  Broadcast({session.id, session.generation, 0, RequestId()}, body);
  SendToClient(client, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
                 auto opened = message.initSessionOpened();
                 opened.setSession(session.id.value);
                 opened.setToken({reinterpret_cast<const kj::byte*>(session.token.data()),
                                  session.token.size()});
                 opened.setVersion(control::kProtocolVersion);
                 auto peers = opened.initWorkers(static_cast<unsigned>(membership_.size()));
                 for (Rank rank = 0; rank < membership_.size(); ++rank) {
                   WritePeer(peers[static_cast<unsigned>(rank)], rank, membership_.member(rank));
                 }
                 opened.setEpoch(epoch_.value);
                 opened.setLeaseMillis(static_cast<uint32_t>(options_.session_lease.count()));
                 opened.setFlowWindowBytes(options_.flow_window_bytes);
                 opened.setMaxBatchBytes(options_.max_batch_bytes);
                 opened.setCluster(options_.cluster);
               })});
  return OkStatus();
}

Status Controller::HandleBatch(const control::PeerName& client, wire::Batch::Reader batch,
                               const control::Message& message) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            sessions_.FindOwned(SessionId(batch.getSession()), client));
  if (message.size() != 2) {
    return InvalidArgument("a batch has two frames, this message has ", message.size());
  }
  const Rank from = batch.getAnswerFrom();
  if (from < -1 || from >= membership_.size()) {
    return InvalidArgument("rank ", from, " cannot answer: the ranks are 0 to ",
                           membership_.size() - 1);
  }
  // Batches with number 0 are the controller's own: they may open, reset and close sessions.
  if (batch.getFirstCommand() == 0) {
    return InvalidArgument("the commands of a batch are counted from 1");
  }
  session->last_heard = Deadline::Clock::now();
  session->sent_bytes += control::FlowCost(message[1].size());
  const RequestId request(batch.getRequest());
  if (request != RequestId()) {
    gatherer_.Expect(client, session->id, request, membership_.size(), from,
                     After(batch.getTimeoutMillis()));
  }
  Broadcast({session->id, Generation(batch.getGeneration()), batch.getFirstCommand(), request},
            message[1]);
  // The workers skip the commands of a failed session, but nobody has to wait for that.
  if (!session->failure.ok()) gatherer_.FailAll(session->id, session->failure);
  return OkStatus();
}

Status Controller::HandleReset(const control::PeerName& client, wire::ResetSession::Reader reset) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            sessions_.FindOwned(SessionId(reset.getSession()), client));
  // One that was used before would bring aborts and communicators of its first use back to life.
  if (reset.getGeneration() != session->generation.value + 1) {
    return InvalidArgument("generation ", reset.getGeneration(), " does not follow ",
                           session->generation);
  }
  session->last_heard = Deadline::Clock::now();
  // What is in flight ends even if nothing has failed: a reset is also how a client gives up.
  FailSession(*session, control::ErrorOf(Aborted("session ", session->id, " was reset")));
  const RequestId request(reset.getRequest());
  gatherer_.Expect(client, session->id, request, membership_.size(), -1,
                   After(reset.getTimeoutMillis()));
  session->generation = Generation(reset.getGeneration());
  session->failure = control::RemoteError();
  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    command.initReset().setGeneration(session->generation.value);
  });
  Broadcast({session->id, session->generation, 0, request}, body);
  const Status whole = membership_.Whole();
  if (!whole.ok()) FailSession(*session, control::ErrorOf(whole));
  return OkStatus();
}

void Controller::HandleClose(const control::PeerName& client, wire::CloseSession::Reader close) {
  const RequestId request(close.getRequest());
  const StatusOr<SessionEntry*> session =
      sessions_.FindOwned(SessionId(close.getSession()), client);
  if (!session.ok()) {
    PendingRequest answer;
    answer.client = client;
    answer.session = SessionId(close.getSession());
    answer.request = request;
    answer.error = control::ErrorOf(session.status());
    return SendAnswer(answer);
  }
  spdlog::info("session {} closed", (*session)->id.value);
  gatherer_.Expect(client, (*session)->id, request, membership_.size(), -1,
                   After(close.getTimeoutMillis()));
  // Lost workers will not answer, and hold nothing any more.
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    if (membership_.member(rank).state == Membership::State::kLost) {
      gatherer_.Answer((*session)->id, request, rank, control::RemoteError(), control::Frame());
    }
  }
  EndSession(**session, request, /*client_lost=*/false);
}

void Controller::SendStatus(const control::PeerName& client, uint64_t request) {
  SendToClient(
      client, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
        auto status = message.initClusterStatus();
        status.setRequest(request);
        status.setCluster(options_.cluster);
        status.setBuild(control::kBuildVersion);
        status.setEpoch(epoch_.value);
        status.setPid(getpid());
        status.setUptimeMillis(static_cast<uint64_t>(
            std::chrono::duration_cast<milliseconds>(Deadline::Clock::now() - started_).count()));
        status.setSequence(sequence_);
        auto workers = status.initWorkers(static_cast<unsigned>(membership_.size()));
        for (Rank rank = 0; rank < membership_.size(); ++rank) {
          const Membership::Member& member = membership_.member(rank);
          const Progress progress = liveness_->ProgressOf(rank);
          auto worker = workers[static_cast<unsigned>(rank)];
          WritePeer(worker.initPeer(), rank, member);
          worker.setState(ToWire(member.state));
          worker.setBackend(member.backend);
          worker.setReceived(progress.received);
          worker.setLaunched(progress.launched);
          worker.setCompleted(progress.completed);
          worker.setHeartbeatAgeMillis(static_cast<uint64_t>(progress.heartbeat_age.count()));
          worker.setReason(member.lost_because);
        }
        auto sessions = status.initSessions(static_cast<unsigned>(sessions_.all().size()));
        unsigned i = 0;
        for (const auto& [id, session] : sessions_.all()) {
          auto entry = sessions[i++];
          entry.setSession(id.value);
          entry.setName(session.name);
          entry.setHost(session.host);
          entry.setPid(session.pid);
          entry.setNumGroups(static_cast<uint32_t>(session.num_groups));
          entry.setGeneration(session.generation.value);
          entry.setSentBytes(session.sent_bytes);
          entry.setConsumedBytes(std::min(session.SlowestConsumed(), session.sent_bytes));
          if (!session.failure.ok()) control::WriteError(entry.initError(), session.failure);
        }
      })});
}

}  // namespace lockstep::controller
