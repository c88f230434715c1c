// How sessions fail for good, and how they end.
//
// A session that ends stays in the table until every rank has executed what was sent before and has
// freed what it held: until then its work may hold other sessions up, so it must be possible to
// abort it, and its client is told that the controller lives.

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/base/log.h"
#include "services/controller/controller.h"

namespace lockstep::controller {

StatusOr<SessionEntry*> Controller::FindHeard(SessionId id, const control::PeerName& client) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session, sessions_.FindOwned(id, client));
  ++session->heard_messages;
  return session;
}

StatusOr<SessionEntry*> Controller::FindOpen(SessionId id, const control::PeerName& client) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session, FindHeard(id, client));
  if (session->ending.has_value()) {
    return BeingClosed(id);
  }
  return session;
}

Status Controller::BeingClosed(SessionId id) {
  return FailedPrecondition("session ", id, " is being closed");
}

void Controller::BreakSession(SessionEntry& session, const Status& why) {
  session.broken = control::ErrorOf(why);
  FailSession(session, session.broken);
}

void Controller::HandleClose(const control::PeerName& client, wire::CloseSession::Reader close) {
  const SessionId id(close.getSession());
  const RequestId request(close.getRequest());
  const StatusOr<SessionEntry*> session = FindOpen(id, client);
  if (!session.ok()) return Answer(client, id, request, control::ErrorOf(session.status()));
  log::Info(log::OfSession(id.value), "session is closed by its client");
  (*session)->last_heard = Deadline::Clock::now();
  NoticeLostBatches(**session, close.getNextCommand());
  const control::RemoteError lost = close.getNextCommand() > (*session)->next_command
                                        ? (*session)->failure
                                        : control::RemoteError();
  EndSession(**session, request, Timer(close.getTimeoutMillis()), /*client_lost=*/false, lost);
}

void Controller::HandleSilentClient(SessionEntry& session) {
  const control::RemoteError cause = control::ErrorOf(Aborted("its client is gone"));
  if (session.ending.has_value()) return AbortEnding(session, cause);
  if (session.client.empty()) {
    log::Warn(log::OfSession(session.id.value), "session of ", session.host, " (pid ", session.pid,
              ") ends: no client came back to it");
  } else {
    log::Warn(log::OfSession(session.id.value), "session of ", session.host, " (pid ", session.pid,
              ") has lost its client, which was silent for ", options_.session_lease.count(),
              " ms");
    if (session.keep_for.count() > 0) {
      FailSession(session, cause);
      session.client_lost = true;
      return Orphan(session, session.keep_for);
    }
  }
  // Nobody waits for its work any more.
  liveness_->Abort(session.id, session.generation, 0, cause);
  EndSession(session, std::nullopt, Deadline::After({}), /*client_lost=*/true);
}

void Controller::EndSession(SessionEntry& session, std::optional<RequestId> request,
                            Deadline deadline, bool client_lost, const control::RemoteError& lost) {
  SessionEntry::Ending& ending = session.ending.emplace(SessionEntry::Ending());
  ending.request = request;
  ending.deadline = deadline;
  ending.aborted = client_lost;
  ending.error = lost;
  // Lost workers will not answer, and hold nothing any more; nor do those that are yet to come.
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    ending.waiting.push_back(membership_.IsWelcome(rank));
  }
  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    command.initCloseSession().setClientLost(client_lost);
  });
  Broadcast({session.id, session.generation, 0, SessionEntry::kEndRequest}, body);
  FinishIfEnded(session);
}

void Controller::NoteEnded(SessionEntry& session, Rank rank, const control::RemoteError& error) {
  SessionEntry::Ending& ending = *session.ending;
  ending.waiting[static_cast<size_t>(rank)] = false;
  if (ending.error.ok()) ending.error = error;
  FinishIfEnded(session);
}

void Controller::FinishIfEnded(SessionEntry& session) {
  const SessionEntry::Ending ending = *session.ending;
  if (std::find(ending.waiting.begin(), ending.waiting.end(), true) != ending.waiting.end()) return;
  const SessionId id = session.id;
  const control::PeerName client = session.client;
  log::Info(log::OfSession(id.value), "session has ended");
  gatherer_.FailAll(id, control::ErrorOf(Aborted("session ", id, " was closed")));
  sessions_.Close(id);
  if (ending.request.has_value()) Answer(client, id, *ending.request, ending.error);
}

void Controller::AbortEnding(SessionEntry& session, const control::RemoteError& cause) {
  SessionEntry::Ending& ending = *session.ending;
  if (std::exchange(ending.aborted, true)) return;
  log::Warn(log::OfSession(session.id.value),
            "session is aborted while it is closed: ", cause.message);
  metrics_.counts().aborts.Add();
  liveness_->Abort(session.id, session.generation, 0, cause);
  const auto request = std::exchange(ending.request, std::nullopt);
  if (request.has_value()) Answer(session.client, session.id, *request, cause);
}

void Controller::AbortLateEnding(SessionEntry& session) {
  std::string late;
  for (Rank rank = 0; rank < membership_.size(); ++rank) {
    if (!session.ending->waiting[static_cast<size_t>(rank)]) continue;
    late += (late.empty() ? "" : ", ") + std::to_string(rank);
  }
  AbortEnding(session, control::ErrorOf(DeadlineExceeded(
                           "session ", session.id, " was not closed in time: rank ", late,
                           " had not finished its work, which is aborted now; see `lockstep "
                           "status` for what the workers are doing")));
}

}  // namespace lockstep::controller
