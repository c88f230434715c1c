// What the controller sends, to all workers and to one client.
#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/control/message_codec.h"
#include "services/controller/controller.h"

namespace lockstep::controller {
namespace {

uint64_t Nanos(std::chrono::nanoseconds duration) {
  return static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0));
}

}  // namespace

void Controller::Broadcast(const Order& order, const control::Frame& body) {
  const auto now = Deadline::Clock::now();
  const control::Frame envelope =
      control::EncodeMessage<wire::Envelope>([&](wire::Envelope::Builder e) {
        e.setEpoch(epoch_.value);
        e.setSequence(++sequence_);
        e.setSession(order.session.value);
        e.setGeneration(order.generation.value);
        e.setFirstCommand(order.first_command);
        e.setRequest(order.request.value);
        e.setBatch();
        e.setClientNanos(Nanos(order.in_client));
        if (order.arrived.has_value()) e.setControllerNanos(Nanos(now - *order.arrived));
        e.setSentNanos(Nanos(now.time_since_epoch()));
      });
  const Status status = workers_->Send(membership_.peers(), {envelope, body});
  if (tracing_.is_recording()) {
    tracing_.AddBatch(order.session, order.first_command, body.size(), order.arrived.value_or(now));
  }
  if (!status.ok()) log::Error("batch ", sequence_, " was not sent: ", Message(status));
}

void Controller::SendToClient(const control::PeerName& client, const control::Message& message) {
  if (client.empty()) return;  // a session's that has none for now
  const Status status = clients_->Send({&client, 1}, message);
  if (!status.ok()) log::Warn("a client cannot be answered: ", Message(status));
}

void Controller::SendLong(const control::PeerName& client, const control::Message& message) {
  SendToClient(client, backlog_.Charge(client, message));
}

void Controller::Tell(SessionEntry& session, const control::Message& message) {
  ++session.told_messages;
  SendToClient(session.client, message);
}

void Controller::Answer(const control::PeerName& client, SessionId session, RequestId request,
                        const control::RemoteError& error) {
  PendingRequest answer;
  answer.client = client;
  answer.session = session;
  answer.request = request;
  answer.error = error;
  SendAnswer(answer);
}

void Controller::SendAnswer(const PendingRequest& request) {
  if (request.began != Deadline::Clock::time_point()) {
    metrics_.counts().requests.Observe(Deadline::Clock::now() - request.began);
    tracing_.Mark("request answered", request.session, 0, request.error.code);
  }
  control::Message message = {control::EncodeMessage<wire::ControllerMessage>([&](auto m) {
    auto answer = m.initAnswer();
    answer.setSession(request.session.value);
    answer.setRequest(request.request.value);
    if (!request.error.ok()) control::WriteError(answer.initError(), request.error);
  })};
  if (request.error.ok() && request.body.size() > 0) message.push_back(request.body);
  SessionEntry* const session = sessions_.Find(request.session);
  if (session != nullptr && session->client == request.client) {
    TellDropped(*session);
    return Tell(*session, message);
  }
  SendToClient(request.client, message);
}

void Controller::Refuse(const control::PeerName& client, const Status& why, bool resume) {
  SendToClient(client, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
                 auto refused = message.initRefused();
                 control::WriteError(refused.initError(), control::ErrorOf(why));
                 refused.setController(incarnation_.value);
                 refused.setResume(resume);
               })});
}

void Controller::FailSession(SessionEntry& session, const control::RemoteError& cause,
                             uint64_t from_command) {
  if (!session.failure.ok()) {
    // The first cause wins. But a worker that was behind may have failed at an earlier command.
    if (from_command >= session.failed_from) return;
    session.failed_from = from_command;
    liveness_->Abort(session.id, session.generation, from_command, session.failure);
    return;
  }
  metrics_.counts().errors[metrics::IndexOf(cause.code)].Add();
  metrics_.counts().aborts.Add();
  tracing_.Mark("session aborted", session.id, cause.command, cause.code);
  session.failure = cause;
  session.failed_from = from_command;
  session.failure.session = session.id;
  log::Warn(log::OfSession(session.id.value), "session failed: ", Message(cause.ToStatus()));
  liveness_->Abort(session.id, session.generation, from_command, session.failure);
  SendFailure(session);
  gatherer_.FailAll(session.id, session.failure);
}

void Controller::SendFailure(SessionEntry& session) {
  Tell(session, {control::EncodeMessage<wire::ControllerMessage>([&](auto message) {
         auto failed = message.initSessionFailed();
         failed.setSession(session.id.value);
         failed.setGeneration(session.generation.value);
         control::WriteError(failed.initError(), session.failure);
       })});
}

}  // namespace lockstep::controller
