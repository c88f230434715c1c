#include "services/worker/execute/controller_reports.h"

#include "runtime/base/log.h"
#include "runtime/control/batch.h"
#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::worker {
namespace {

control::RemoteError LocateError(const Status& status, Rank rank, SessionId session,
                                 uint64_t command, const std::string& function) {
  control::RemoteError error = control::ErrorOf(status);
  error.rank = rank;
  error.session = session;
  error.command = command;
  error.function = function;
  error.stack = Backtrace(status);
  return error;
}

}  // namespace

void ControllerReports::Fail(SessionState& session, uint64_t command, const std::string& function,
                             const Status& status) {
  // Work that was given up because of a failure is no failure of its own. Of a command before the
  // failing one it is: the other ranks have executed that, and this one goes no further.
  if (status.code() == StatusCode::kAborted && session.Skips(command)) return;
  control::RemoteError error =
      LocateError(status, membership_->rank, session.id(), command, function);
  if (status.code() == StatusCode::kNotFound && session.first_command() > 1) {
    error.message += "; this rank has had another worker since command " +
                     std::to_string(session.first_command()) +
                     ": what registers were given before is lost here";
  }
  // What comes from elsewhere is known there: only the first cause is reported.
  if (!session.Fail(error)) return;
  if (recorder_ != nullptr) recorder_->AddError(session.id(), command, status.code());
  log::Warn(log::OfSession(session.id().value), "session failed: ", Message(error.ToStatus()));
  Send({control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder message) {
    auto failure = message.initFailure();
    failure.setGeneration(session.generation().value);
    control::WriteError(failure.initError(), error);
  })});
}

void ControllerReports::Reply(const BatchContext& batch, const control::RemoteError& error,
                              const control::Frame& body) {
  if (batch.request == RequestId()) return;
  control::Message message = {
      control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder builder) {
        auto reply = builder.initReply();
        reply.setSession(batch.session.value);
        reply.setGeneration(batch.generation.value);
        reply.setRequest(batch.request.value);
        if (!error.ok()) control::WriteError(reply.initError(), error);
      })};
  if (body.size() > 0) message.push_back(body);
  Send(message);
}

void ControllerReports::ReportConsumed(SessionState& session, size_t body_bytes) {
  session.consumed_bytes += control::FlowCost(body_bytes);
  if (session.consumed_bytes - session.reported_bytes < membership_->flow_window_bytes / 8) return;
  session.reported_bytes = session.consumed_bytes;
  Send({control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder message) {
    auto consumed = message.initConsumed();
    consumed.setSession(session.id().value);
    consumed.setBytes(session.consumed_bytes);
  })});
}

void ControllerReports::Send(const control::Message& message) {
  EndForwarding();
  const Status status = controller_->Send(message);
  if (!status.ok()) log::Error("the controller cannot be told: ", Message(status));
}

}  // namespace lockstep::worker
