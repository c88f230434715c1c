#include "services/controller/sessions/session_failures.h"

#include "runtime/base/log.h"
#include "services/metrics/counters.h"

namespace lockstep::controller {

void SessionFailures::Fail(SessionEntry& session, const control::RemoteError& cause,
                           uint64_t from_command) {
  if (!session.failure.ok()) {
    if (from_command >= session.failed_from) return;
    session.failed_from = from_command;
    return AbortOnWorkers(session);
  }
  tools_.counts.errors[metrics::IndexOf(cause.code)].Add();
  tools_.counts.aborts.Add();
  tools_.tracing.Mark("session aborted", session.id, cause.command, cause.code);
  session.failure = cause;
  session.failed_from = from_command;
  session.failure.session = session.id;
  log::Warn(log::OfSession(session.id.value), "session failed: ", Message(cause.ToStatus()));
  AbortOnWorkers(session);
  messenger_.TellFailure(session);
  gatherer_.FailAll(session.id, session.failure);
}

void SessionFailures::AbortOnWorkers(const SessionEntry& session) {
  liveness_.Abort(session.id, session.generation, session.failed_from, session.failure);
}

void SessionFailures::Break(SessionEntry& session, const Status& why) {
  session.broken = control::ErrorOf(why);
  Fail(session, session.broken);
}

void SessionFailures::NoticeLostBatches(SessionEntry& session, uint64_t next_command) {
  if (next_command <= session.commands.next_command()) return;
  Fail(session, control::ErrorOf(
                    MakeStatus(StatusCode::kDataLoss, "commands ", session.commands.next_command(),
                               " to ", next_command - 1, " of session ", session.id,
                               " were lost on their way: the connection was broken for a moment")));
}

void SessionFailures::HandleFailure(Rank rank, wire::Failure::Reader failure) {
  control::RemoteError error = control::ReadError(failure.getError());
  error.rank = rank;
  const Generation generation(failure.getGeneration());
  SessionEntry* session = sessions_.Find(error.session);
  if (session == nullptr || generation > session->generation) return;
  if (generation == session->generation) return Fail(*session, error, error.command);
  // A rank that was behind has failed earlier than the one that the client has read of. Nothing is
  // to be told any more, but its peers may be waiting for it in a command of that time.
  liveness_.Abort(session->id, generation, error.command, error);
}

}  // namespace lockstep::controller
