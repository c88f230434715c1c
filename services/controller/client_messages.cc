// What the controller does with the clients' messages.

#include <algorithm>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/base/version.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/session_record.h"
#include "runtime/control/value_codec.h"
#include "services/controller/controller.h"
#include "services/controller/gates.h"

namespace lockstep::controller {
namespace {

// Only a body may be large.
constexpr size_t kMaxHeaderBytes = size_t{64} << 10;
// The names of a million registers: a client gives names back whether it has room or not.
constexpr uint64_t kNamesBytes = uint64_t{8} << 20;
// A client of ours asks one thing per thread, and waits.
constexpr size_t kMaxRequests = 4096;
// Each is a few kilobytes here and on every worker.
constexpr size_t kMaxSessions = 4096;
constexpr uint32_t kMaxResetsAhead = 2000;
constexpr size_t kMaxPendingOpens = 4096;
constexpr uint64_t kLongestWaitNanos = uint64_t{1} << 50;  // what a client may say: 13 days

// Of any length, whatever session has asked or none.
bool HasLongAnswer(wire::ClientMessage::Which question) {
  switch (question) {
    case wire::ClientMessage::STATUS:
    case wire::ClientMessage::EXPLAIN:
    case wire::ClientMessage::LIST_REGISTERS:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string Controller::ShortName(const std::string& name) {
  constexpr size_t kMaxBytes = 255;
  return name.substr(0, kMaxBytes);
}

Status Controller::CheckVersion(uint32_t oldest, uint32_t newest, const std::string& build) {
  if (oldest <= kProtocolVersion && newest >= kOldestProtocolVersion) {
    return OkStatus();
  }
  return FailedPrecondition("the client (Lockstep ", ShortName(build),
                            ") speaks protocol versions ", oldest, " to ", newest,
                            ", this controller (Lockstep ", kBuildVersion, ") ",
                            kOldestProtocolVersion, " to ", kProtocolVersion);
}

Status Controller::HandleClient(const control::PeerName& client, const control::Message& message) {
  if (message.empty()) return InvalidArgument("an empty message");
  if (message[0].size() > kMaxHeaderBytes) {
    return InvalidArgument("a message's first frame has at most ", kMaxHeaderBytes,
                           " bytes, this one ", message[0].size());
  }
  return control::DecodeMessage<wire::ClientMessage>(
      message[0], [&](wire::ClientMessage::Reader reader) -> Status {
        LOCKSTEP_RETURN_IF_ERROR(CheckRole(clients_->sender(), reader.which()));
        if (HasLongAnswer(reader.which())) LOCKSTEP_RETURN_IF_ERROR(backlog_.CheckRoom(client));
        switch (reader.which()) {
          case wire::ClientMessage::BATCH:
            return HandleBatch(client, reader.getBatch(), message);
          case wire::ClientMessage::OPEN_SESSION:
            OpenWhenReady(client, message[0], reader.getOpenSession().getTimeoutMillis());
            return OkStatus();
          case wire::ClientMessage::RESUME_SESSION:
            OpenWhenReady(client, message[0], reader.getResumeSession().getTimeoutMillis());
            return OkStatus();
          case wire::ClientMessage::ATTACH_SESSION:
            OpenWhenReady(client, message[0], reader.getAttachSession().getTimeoutMillis());
            return OkStatus();
          case wire::ClientMessage::NAME_REGISTER:
            return HandleName(client, reader.getNameRegister());
          case wire::ClientMessage::DETACH_SESSION:
            return HandleDetach(client, reader.getDetachSession());
          case wire::ClientMessage::CLOSE_SESSION:
            HandleClose(client, reader.getCloseSession());
            return OkStatus();
          case wire::ClientMessage::RESET_SESSION:
            return HandleReset(client, reader.getResetSession());
          case wire::ClientMessage::KEEP_ALIVE:
            return HandleKeepAlive(client, reader.getKeepAlive());
          case wire::ClientMessage::OUTPUT_TAKEN:
            return HandleOutputTaken(client, reader.getOutputTaken());
          case wire::ClientMessage::STATUS:
            SendStatus(client, reader.getStatus(), {});
            return OkStatus();
          case wire::ClientMessage::AWAIT_WORKERS:
            return HandleAwait(client, reader.getAwaitWorkers());
          case wire::ClientMessage::EXPLAIN:
            return Explain(client, reader.getExplain());
          case wire::ClientMessage::TRACE:
            HandleTrace(client, reader.getTrace());
            return OkStatus();
          case wire::ClientMessage::LIST_REGISTERS:
            return AskForRegisters(client, reader.getListRegisters());
          case wire::ClientMessage::SHUTDOWN: {
            const std::string reason = control::ToString(reader.getShutdown());
            SendToClient(client, {control::EncodeMessage<wire::ControllerMessage>(
                                     [&](auto m) { m.setShutdown(reason); })});
            RequestStop(reason);
            return OkStatus();
          }
        }
        return Unimplemented("unknown kind of message ", static_cast<int>(reader.which()),
                             "; this controller is Lockstep ", kBuildVersion);
      });
}

// Opened at once, or when all workers are ready: one path for both.
void Controller::OpenWhenReady(const control::PeerName& client, const control::Frame& message,
                               uint64_t timeout_millis) {
  // What the same client has asked before is out of date.
  std::erase_if(pending_opens_, [&](const PendingOpen& open) { return open.client == client; });
  if (pending_opens_.size() == kMaxPendingOpens) {
    return Refuse(client, ResourceExhausted(kMaxPendingOpens,
                                            " clients wait for the workers already; try later"));
  }
  pending_opens_.push_back({client, {message}, Sender(), Timer(timeout_millis)});
  OpenPendingSessions();
}

void Controller::OpenPendingSessions() {
  if (!membership_.AllReady()) return;
  for (const PendingOpen& open : std::exchange(pending_opens_, {})) {
    const Status status = control::DecodeMessage<wire::ClientMessage>(
        open.message[0], [&](wire::ClientMessage::Reader reader) {
          // It may have waited for long.
          LOCKSTEP_RETURN_IF_ERROR(CheckStillAllowed(open.sender));
          if (reader.isOpenSession()) return OpenSession(open, reader.getOpenSession());
          if (reader.isAttachSession()) return Attach(open, reader.getAttachSession());
          Resume(open, reader.getResumeSession());
          return OkStatus();
        });
    if (!status.ok()) Refuse(open.client, status);
  }
}

Status Controller::CheckRequest(RequestId request) {
  if (request != SessionEntry::kEndRequest) return OkStatus();
  return InvalidArgument("request ", request, " is the controller's own");
}

Status Controller::CheckRoomForRequest(const SessionEntry& session) const {
  if (gatherer_.CountOf(session.id) < kMaxRequests) return OkStatus();
  return ResourceExhausted("session ", session.id, " waits for ", kMaxRequests, " answers already");
}

// Each waits in the worker's queue, and its abort in the worker's memory.
Status Controller::CheckRoomForReset(const SessionEntry& session, Generation generation) const {
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    const Generation come_to = session.come_to[static_cast<size_t>(rank)];
    if (!membership_.IsWelcome(rank) || generation.value - come_to.value < kMaxResetsAhead) {
      continue;
    }
    return ResourceExhausted("session ", session.id, " was reset ", kMaxResetsAhead,
                             " times without rank ", rank,
                             " having come to it; see `lockstep status` for what it is doing");
  }
  return OkStatus();
}

Status Controller::HandleKeepAlive(const control::PeerName& client,
                                   wire::KeepAlive::Reader keep_alive) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry* const session,
                            sessions_.FindOwned(SessionId(keep_alive.getSession()), client));
  session->last_heard = Deadline::Clock::now();
  const bool missing = session->heard_messages < keep_alive.getSent();
  session->heard_messages = std::max(session->heard_messages, keep_alive.getSent());
  if (keep_alive.getTellAgain()) {
    if (!session->failure.ok()) SendFailure(*session);
    SendCredit(*session);
    TellReplaced(*session);
    session->output.Forget();
  }
  SendToClient(client, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
                 auto answer = message.initKeepAlive();
                 answer.setSession(session->id.value);
                 answer.setSent(session->told_messages);
                 answer.setMissing(missing);
               })});
  return OkStatus();
}

Status Controller::OpenSession(const PendingOpen& pending, wire::OpenSession::Reader open) {
  LOCKSTEP_RETURN_IF_ERROR(
      CheckVersion(open.getMinVersion(), open.getMaxVersion(), control::ToString(open.getBuild())));
  const uint32_t groups = open.getNumGroups();
  if (groups == 0 || static_cast<uint32_t>(membership_.size()) % groups != 0) {
    return InvalidArgument("num_groups is ", groups, ", which does not divide the ",
                           membership_.size(), " workers");
  }
  if (sessions_.all().size() >= kMaxSessions) {
    return ResourceExhausted("cluster \"", options_.cluster, "\" has ", kMaxSessions,
                             " sessions already; close some first");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckRoomForKey(pending.sender));
  LOCKSTEP_RETURN_IF_ERROR(CheckBulkKey(open.getBulkKey()));
  metrics_.counts().sessions_opened.Add();
  SessionEntry& session = sessions_.Open(pending.client);
  session.owner = pending.sender;
  tracing_.Mark("session opened", session.id);
  session.name = ShortName(control::ToString(open.getName()));
  session.host = ShortName(control::ToString(open.getHost().getName()));
  session.host_id = ShortName(control::ToString(open.getHost().getId()));
  session.pid = open.getPid();
  session.num_groups = static_cast<int>(groups);
  session.command_timeout = control::Millis(open.getCommandTimeoutMillis());
  session.keep_for = control::Millis(open.getKeepMillis());
  session.bulk_key = control::ToString(open.getBulkKey());
  session.forward_output = open.getForwardOutput();
  log::Info(log::OfSession(session.id.value), "session \"", session.name, "\" opened by ",
            ProcessLabel(session.host, session.pid));

  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    control::WriteSessionRecord(command.initOpenSession(), session);
  });
  Broadcast({session.id, session.generation, 0, RequestId()}, body);
  SendOpened(session);
  return OkStatus();
}

void Controller::SendOpened(SessionEntry& session) {
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto opened = message.initSessionOpened();
         opened.setSession(session.id.value);
         opened.setToken(session.token);
         opened.setVersion(kProtocolVersion);
         WritePeers(opened.initWorkers(static_cast<unsigned>(membership_.size())));
         opened.setController(incarnation_.value);
         opened.setLeaseMillis(static_cast<uint32_t>(options_.session_lease.count()));
         opened.setFlowWindowBytes(options_.flow_window_bytes);
         opened.setMaxBatchBytes(options_.max_batch_bytes);
         opened.setCluster(options_.cluster);
         control::SessionRecord record = session;
         record.consumed_bytes = session.sent_bytes;
         control::WriteSessionRecord(opened.initRecord(), record);
         WriteReplaced(opened.initReplaced(static_cast<unsigned>(session.replaced.size())),
                       session);
       })});
}

Status Controller::HandleBatch(const control::PeerName& client, wire::Batch::Reader batch,
                               const control::Message& message) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            FindHeard(SessionId(batch.getSession()), client));
  const RequestId request(batch.getRequest());
  if (session->ending.has_value()) {
    // Names that are given back meanwhile are free soon enough; whoever asks is answered.
    if (request != RequestId()) {
      Answer(client, session->id, request, control::ErrorOf(BeingClosed(session->id)));
    }
    return OkStatus();
  }
  if (message.size() != 2) {
    return InvalidArgument("a batch has two frames, this message has ", message.size());
  }
  const Rank from = batch.getAnswerFrom();
  if (from < -1 || from >= membership_.size()) {
    return InvalidArgument("rank ", from, " cannot answer: the ranks are 0 to ",
                           membership_.size() - 1);
  }
  // Batches with number 0 are the controller's own: they may open, reset and close sessions.
  if (batch.getFirstCommand() == 0 || batch.getCommandCount() == 0) {
    return InvalidArgument("the commands of a batch are counted from 1, and there is at least one");
  }
  if (batch.getCommandCount() > message[1].size() / control::kMinCommandBytes) {
    return InvalidArgument("a body of ", message[1].size(), " bytes has fewer than ",
                           batch.getCommandCount(), " commands");
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckRequest(request));
  session->last_heard = Deadline::Clock::now();
  session->register_generations =
      std::max(session->register_generations, batch.getRegisterGenerations());
  if (batch.hasCopiedTo()) metrics_.counts().copied_to.Add(batch.getCopiedTo());
  if (batch.hasCopiedFrom()) metrics_.counts().copied_from.Add(batch.getCopiedFrom());
  Status admitted = OkStatus();
  if (request != RequestId()) {
    admitted = CheckRoomForRequest(*session);
    gatherer_.Expect(client, session->id, request, membership_.size(), from,
                     Timer(batch.getTimeoutMillis()));
  }
  if (admitted.ok()) {
    admitted = Admit(*session, batch, control::FlowCost(message[1].size()));
  }
  if (!admitted.ok()) Reject(*session, batch, admitted);
  if (admitted.ok()) {
    Broadcast({session->id, Generation(batch.getGeneration()), batch.getFirstCommand(), request,
               std::chrono::nanoseconds(std::min(batch.getWaitedNanos(), kLongestWaitNanos)),
               session->last_heard},
              message[1]);
  }
  // The workers skip the commands of a failed session, but nobody has to wait for that.
  if (!session->failure.ok()) gatherer_.FailAll(session->id, session->failure);
  return OkStatus();
}

void Controller::NoticeLostBatches(SessionEntry& session, uint64_t next_command) {
  if (next_command <= session.next_command) return;
  FailSession(session, control::ErrorOf(MakeStatus(
                           StatusCode::kDataLoss, "commands ", session.next_command, " to ",
                           next_command - 1, " of session ", session.id,
                           " were lost on their way: the connection was broken for a moment")));
}

// What was lost on its way a reset can mend, which says where the client is. One that sends what it
// has sent before, or more than it may, is none of ours.
void Controller::Reject(SessionEntry& session, wire::Batch::Reader batch, const Status& why) {
  if (batch.getFirstCommand() > session.next_command) {
    FailSession(session, control::ErrorOf(why));
  } else if (session.broken.ok()) {
    BreakSession(session, why);
  }
}

Status Controller::Admit(SessionEntry& session, wire::Batch::Reader batch, uint64_t cost) {
  if (!session.broken.ok()) return session.broken.ToStatus();
  if (batch.getFirstCommand() != session.next_command) {
    return MakeStatus(StatusCode::kDataLoss, "session ", session.id,
                      " sent a batch that begins with", " command ", batch.getFirstCommand(),
                      " where command ", session.next_command,
                      " was expected: what is between was lost. A batch larger than max_batch_bytes"
                      " (",
                      options_.max_batch_bytes,
                      ") is dropped on its way, and so is what a broken connection had under way: "
                      "a reset makes the session usable without those commands");
  }
  // What a client of ours can have under way at most: it sends as long as the window is not full,
  // perhaps one batch to make room for a large command, and that command.
  const uint64_t limit =
      options_.flow_window_bytes + 2 * control::FlowCost(options_.max_batch_bytes) + kNamesBytes;
  if (session.UnderWay() + cost > limit) {
    return ResourceExhausted("session ", session.id, " has ", session.UnderWay() + cost,
                             " bytes under way, more than any client may have that keeps to its"
                             " window of ",
                             options_.flow_window_bytes, " bytes and waits for credit");
  }
  session.next_command += batch.getCommandCount();
  session.sent_bytes += cost;
  return OkStatus();
}

Status Controller::HandleReset(const control::PeerName& client, wire::ResetSession::Reader reset) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            FindOpen(SessionId(reset.getSession()), client));
  // One that was used before (or is far off) would bring aborts and communicators of its first use
  // back to life. A few may be left out: resets may have been lost on their way.
  constexpr uint32_t kMostLost = 1000;
  if (reset.getGeneration() - session->generation.value - 1 >= kMostLost) {
    return InvalidArgument("generation ", reset.getGeneration(), " does not follow ",
                           session->generation);
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckRequest(RequestId(reset.getRequest())));
  session->last_heard = Deadline::Clock::now();
  // What is in flight ends even if nothing has failed: a reset is also how a client gives up. What
  // comes before a failure is still executed, so that all ranks have its results.
  const RequestId request(reset.getRequest());
  const Status room = CheckRoomForReset(*session, Generation(reset.getGeneration()));
  if (!room.ok()) {
    Answer(client, session->id, request, control::ErrorOf(room));
    return OkStatus();
  }
  if (session->failure.ok()) {
    FailSession(*session, control::ErrorOf(Aborted("session ", session->id, " was reset")));
  } else {
    // Once more, for whoever has not heard it: after the reset nobody would tell him.
    liveness_->Abort(session->id, session->generation, session->failed_from, session->failure);
  }
  const uint64_t failed_from = session->failed_from;
  gatherer_.Expect(client, session->id, request, membership_.size(), -1,
                   Timer(reset.getTimeoutMillis()));
  metrics_.counts().resets.Add();
  tracing_.Mark("session reset", session->id);
  session->generation = Generation(reset.getGeneration());
  if (reset.getNextCommand() > session->next_command) {
    session->next_command = reset.getNextCommand();
    session->lost_bytes =
        reset.getSentBytes() - std::min(session->sent_bytes, reset.getSentBytes());
    SendCredit(*session);
  }
  session->reset_at = session->next_command;
  session->failure = control::RemoteError();
  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    auto reset_order = command.initReset();
    reset_order.setGeneration(session->generation.value);
    reset_order.setFailedFrom(failed_from);
  });
  Broadcast({session->id, session->generation, 0, request}, body);
  const Status whole = membership_.Whole();
  if (!whole.ok()) FailSession(*session, control::ErrorOf(whole));
  if (!session->broken.ok()) FailSession(*session, session->broken);
  return OkStatus();
}

}  // namespace lockstep::controller
