#include "services/controller/dispatcher.h"

#include <optional>
#include <utility>

#include "runtime/base/version.h"
#include "runtime/control/value_codec.h"
#include "services/controller/roles.h"

namespace lockstep::controller {
namespace {

// Only a body may be large.
constexpr size_t kMaxHeaderBytes = size_t{64} << 10;

// Of any length, for sessions of any client.
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

// How long a client that wants a session waits for the workers.
uint64_t TimeoutMillis(wire::ClientMessage::Reader reader) {
  if (reader.isOpenSession()) return reader.getOpenSession().getTimeoutMillis();
  if (reader.isResumeSession()) return reader.getResumeSession().getTimeoutMillis();
  return reader.getAttachSession().getTimeoutMillis();
}

}  // namespace

Status Dispatcher::HandleClient(const control::PeerName& client, const control::Identity* sender,
                                const control::Message& message) {
  const auto dispatch = [&]() -> Status {
    if (message.empty()) return InvalidArgument("an empty message");
    if (message[0].size() > kMaxHeaderBytes) {
      return InvalidArgument("a message's first frame has at most ", kMaxHeaderBytes,
                             " bytes, this one ", message[0].size());
    }
    return control::DecodeMessage<wire::ClientMessage>(
        message[0], [&](wire::ClientMessage::Reader reader) {
          return Dispatch(client, sender, message, reader);
        });
  };
  const Status status = dispatch();
  if (status.ok()) return status;
  // A refusal is for clients: another process could not read it.
  if (message.empty() || !AnswerStranger(client, message[0])) {
    parts_.messenger.Refuse(client, status);
  }
  return status;
}

Status Dispatcher::Dispatch(const control::PeerName& client, const control::Identity* sender,
                            const control::Message& message, wire::ClientMessage::Reader reader) {
  LOCKSTEP_RETURN_IF_ERROR(CheckRole(sender, reader.which()));
  if (HasLongAnswer(reader.which())) LOCKSTEP_RETURN_IF_ERROR(parts_.unread.CheckRoom(client));
  switch (reader.which()) {
    case wire::ClientMessage::BATCH: {
      const auto batch = reader.getBatch();
      LOCKSTEP_RETURN_IF_ERROR(
          parts_.grants.CheckFree(SessionId(batch.getSession()), RequestId(batch.getRequest())));
      return parts_.commands.HandleBatch(client, batch, message);
    }
    case wire::ClientMessage::OPEN_SESSION:
    case wire::ClientMessage::RESUME_SESSION:
    case wire::ClientMessage::ATTACH_SESSION:
      parts_.opener.Handle(
          {client, sender == nullptr ? std::nullopt : std::optional<control::Identity>(*sender)},
          message[0], TimeoutMillis(reader));
      return OkStatus();
    case wire::ClientMessage::NAME_REGISTER: {
      const auto name = reader.getNameRegister();
      LOCKSTEP_RETURN_IF_ERROR(
          parts_.grants.CheckFree(SessionId(name.getSession()), RequestId(name.getRequest())));
      return parts_.commands.HandleName(client, name);
    }
    case wire::ClientMessage::COMPILE_FRAGMENT:
      return parts_.grants.HandleCompile(client, sender, reader.getCompileFragment(), message);
    case wire::ClientMessage::DETACH_SESSION:
      return parts_.leases.HandleDetach(client, reader.getDetachSession());
    case wire::ClientMessage::CLOSE_SESSION:
      parts_.ender.HandleClose(client, reader.getCloseSession());
      return OkStatus();
    case wire::ClientMessage::END_SESSION:
      parts_.ender.HandleEnd(client, sender, reader.getEndSession());
      return OkStatus();
    case wire::ClientMessage::RESET_SESSION:
      return parts_.commands.HandleReset(client, reader.getResetSession());
    case wire::ClientMessage::KEEP_ALIVE:
      return parts_.leases.HandleKeepAlive(client, reader.getKeepAlive());
    case wire::ClientMessage::OUTPUT_TAKEN:
      return parts_.output.HandleTaken(client, reader.getOutputTaken());
    case wire::ClientMessage::STATUS:
      parts_.status.Send(client, reader.getStatus(), {});
      return OkStatus();
    case wire::ClientMessage::AWAIT_WORKERS:
      return parts_.world.HandleAwait(client, reader.getAwaitWorkers());
    case wire::ClientMessage::EXPLAIN:
      return parts_.status.Explain(client, reader.getExplain());
    case wire::ClientMessage::TRACE:
      parts_.traces.Handle(client, reader.getTrace());
      return OkStatus();
    case wire::ClientMessage::LIST_REGISTERS:
      return parts_.registers.Ask(client, reader.getListRegisters());
    case wire::ClientMessage::SHUTDOWN: {
      const std::string reason = control::ToString(reader.getShutdown());
      parts_.messenger.TellShutdown(client, reason);
      on_shutdown_(reason);
      return OkStatus();
    }
  }
  return Unimplemented("unknown kind of message ", static_cast<int>(reader.which()),
                       "; this controller is Lockstep ", kBuildVersion);
}

bool Dispatcher::AnswerStranger(const control::PeerName& client, const control::Frame& frame) {
  std::optional<control::Frame> answer = control::AnswerToStranger(
      frame, control::Protocol::kClientToController, control::Protocol::kControllerToClient,
      "the controller's worker port is " + address_.worker_endpoint);
  if (!answer.has_value()) return false;
  parts_.outbox.ToClient(client, {*std::move(answer)});
  return true;
}

Status Dispatcher::HandleWorker(const control::PeerName& worker, const control::Message& message) {
  if (message.empty()) return InvalidArgument("an empty message");
  if (!control::HasTag(message[0], control::Protocol::kWorkerToController)) [[unlikely]] {
    std::optional<control::Frame> answer = control::AnswerToStranger(
        message[0], control::Protocol::kWorkerToController, control::Protocol::kControllerToWorker,
        "the controller's client port is " + address_.client_endpoint);
    // What is for one member alone ends the tree in which others pass commands on: a member is no
    // stranger, and has no use for an answer.
    const Rank rank = parts_.membership.FindPeer(worker);
    const bool is_member = rank >= 0 && parts_.membership.IsWelcome(rank);
    if (answer.has_value() && !is_member) parts_.outbox.ToWorker(worker, *std::move(answer));
  }
  return control::DecodeMessage<wire::WorkerMessage>(
      message[0], [&](wire::WorkerMessage::Reader reader) -> Status {
        if (reader.isHello()) {
          parts_.admission.HandleHello(worker, reader.getHello());
          return OkStatus();
        }
        const Rank rank = parts_.membership.FindPeer(worker);
        if (rank >= 0) return Dispatch(rank, message, reader);
        // One that was refused says goodbye, too.
        if (reader.isGoodbye()) return OkStatus();
        return FailedPrecondition("its sender has not joined");
      });
}

Status Dispatcher::Dispatch(Rank rank, const control::Message& message,
                            wire::WorkerMessage::Reader reader) {
  switch (reader.which()) {
    case wire::WorkerMessage::GOODBYE:
      parts_.world.HandleGoodbye(rank, control::ToString(reader.getGoodbye()));
      return OkStatus();
    case wire::WorkerMessage::READY:
      parts_.world.HandleReady(rank, reader.getReady());
      return OkStatus();
    case wire::WorkerMessage::TROUBLE:
      parts_.world.HandleTrouble(rank, reader.getTrouble());
      return OkStatus();
    case wire::WorkerMessage::REPLY:
      parts_.grants.NoteReply(SessionId(reader.getReply().getSession()),
                              RequestId(reader.getReply().getRequest()), rank);
      parts_.commands.HandleReply(rank, reader.getReply(),
                                  message.size() > 1 ? message[1] : control::Frame());
      return OkStatus();
    case wire::WorkerMessage::FAILURE:
      parts_.failures.HandleFailure(rank, reader.getFailure());
      return OkStatus();
    case wire::WorkerMessage::CONSUMED:
      parts_.commands.HandleConsumed(rank, reader.getConsumed());
      return OkStatus();
    case wire::WorkerMessage::OUTPUT:
      return parts_.output.HandleOutput(rank, reader.getOutput(), message);
    default:
      return Unimplemented("unknown kind of message ", static_cast<int>(reader.which()));
  }
}

void Dispatcher::HandleTimers() {
  const TimePoint now = clock_.Now();
  // If this thread could not look (its process was stopped, or the machine was), what others said
  // meanwhile waits to be read: that time is not their silence, and nothing is late before it is
  // read.
  const auto gap = parts_.timers.Begin(now);
  if (gap > 4 * Timers::kInterval) {
    parts_.leases.Forgive(gap);
    parts_.tracing.Forgive(gap);
    return parts_.timers.End(now, Deadline::At(now + Timers::kInterval));
  }
  Deadline next = Deadline::At(now + Timers::kInterval)
                      .Earlier(parts_.gatherer.Expire(now))
                      .Earlier(parts_.inquiries.Expire(now));
  parts_.ender.EndRevoked();
  parts_.command_watch.Look();
  parts_.world.NoticeBrokenConnections();
  next = parts_.opener.Expire(now, next);
  next = parts_.waiters.Expire(now, next);
  next = parts_.leases.Expire(now, next);
  parts_.traces.EndIfSilent(now);
  parts_.status.UpdateMetrics();
  parts_.timers.End(now, next);
}

void Dispatcher::EndSessions(const std::string& reason) {
  parts_.ender.EndAll(reason);
  parts_.opener.RefuseAll(Unavailable("the cluster was shut down: ", reason));
  parts_.messenger.TellShutdown(parts_.tracing.client(), reason);
}

void Dispatcher::Shutdown(const std::string& reason) {
  parts_.waiters.AnswerAll(Unavailable("the cluster was shut down: ", reason));
  parts_.inquiries.CompleteAll();
  parts_.world.Shutdown(reason);
}

}  // namespace lockstep::controller
