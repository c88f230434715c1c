#include "services/controller/sessions/session_ender.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/rank_text.h"
#include "runtime/control/batch.h"
#include "runtime/control/value_codec.h"

namespace lockstep::controller {

void SessionEnder::HandleClose(const control::PeerName& client, wire::CloseSession::Reader close) {
  const SessionId id(close.getSession());
  const RequestId request(close.getRequest());
  const StatusOr<SessionEntry*> found = sessions_.FindOpen(id, client);
  if (!found.ok()) {
    return messenger_.Answer(client, id, request, control::ErrorOf(found.status()));
  }
  SessionEntry& session = **found;
  log::Info(log::OfSession(id.value), "session is closed by its client");
  session.last_heard = tools_.clock.Now();
  failures_.NoticeLostBatches(session, close.getNextCommand());
  const bool is_lost = close.getNextCommand() > session.commands.next_command();
  const control::RemoteError lost = is_lost ? session.failure : control::RemoteError();
  End(session, request, tools_.timers.After(close.getTimeoutMillis()), /*client_lost=*/false, lost);
}

void SessionEnder::EndWithoutClient(SessionEntry& session, const control::RemoteError& cause) {
  liveness_.Abort(session.id, session.generation, 0, cause);
  failures_.EndPast(session, cause);
  const SessionId id = session.id;
  End(session, std::nullopt, Deadline::At(tools_.clock.Now()), /*client_lost=*/true,
      control::RemoteError());
  // It may be gone at once.
  if (SessionEntry* const ending = sessions_.Find(id)) ending->ending->abort_cause = cause;
}

void SessionEnder::HandleEnd(const control::PeerName& client, const control::Identity* sender,
                             wire::EndSession::Reader end) {
  constexpr size_t kMostReasonBytes = 255;
  const SessionId id(end.getSession());
  const std::string reason = control::ToString(end.getReason()).substr(0, kMostReasonBytes);
  messenger_.Answer(client, id, RequestId(end.getRequest()),
                    control::ErrorOf(EndFor(sender, id, reason)));
}

Status SessionEnder::EndFor(const control::Identity* sender, SessionId id,
                            const std::string& reason) {
  SessionEntry* const session = sessions_.Find(id);
  if (session == nullptr) {
    return NotFound("there is no session ", id, "; `lockstep sessions` lists those that there are");
  }
  const bool is_own =
      sender != nullptr && session->owner.has_value() && session->owner->key == sender->key;
  if (sender != nullptr && !is_own && !control::Includes(sender->role, control::Role::kOperator)) {
    return PermissionDenied("session ", id, " was opened with another key than that of \"",
                            sender->name, "\" (a ", control::Name(sender->role),
                            "), and only an operator may end sessions of others");
  }
  const std::string who = sender == nullptr ? "" : " by \"" + sender->name + "\"";
  const Status why = Aborted("session ", id, " was ended", who, ": ",
                             reason.empty() ? "no reason was given" : reason);
  log::Warn(log::OfSession(id.value), Message(why));
  if (session->ending.has_value()) {
    Abort(*session, control::ErrorOf(why));
    return OkStatus();
  }
  if (!session->client.empty()) messenger_.Refuse(session->client, why);
  EndWithoutClient(*session, control::ErrorOf(why));
  return OkStatus();
}

void SessionEnder::EndRevoked() {
  if (!access_.TakeChange()) return;
  for (const SessionId id : sessions_.Ids()) {
    SessionEntry& session = *sessions_.Find(id);
    const Status allowed = access_.CheckStillAllowed(session.owner);
    if (allowed.ok() || session.ending.has_value()) continue;
    log::Warn(log::OfSession(id.value), "session ends: ", Message(allowed));
    // Its client would wait for ever: what it says is not heard any more.
    if (!session.client.empty()) messenger_.Refuse(session.client, allowed);
    EndWithoutClient(session, control::ErrorOf(allowed));
  }
}

void SessionEnder::EndAll(const std::string& reason) {
  const control::RemoteError cause =
      control::ErrorOf(Unavailable("the cluster was shut down: ", reason));
  for (auto& [id, session] : sessions_.all()) {
    // Before the answers: a client that is answered knows why already when it calls again.
    messenger_.TellShutdown(session.client, reason);
    gatherer_.FailAll(id, cause);
    if (session.ending.has_value()) Abort(session, cause);
    liveness_.Abort(id, session.generation, 0, cause);
  }
}

void SessionEnder::End(SessionEntry& session, std::optional<RequestId> request, Deadline deadline,
                       bool client_lost, const control::RemoteError& lost) {
  SessionEntry::Ending& ending = session.ending.emplace(SessionEntry::Ending());
  ending.request = request;
  ending.deadline = deadline;
  ending.aborted = client_lost;
  ending.aborted_at = tools_.clock.Now();
  ending.error = lost;
  // Lost workers will not answer, and hold nothing any more; nor do those that are yet to come.
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    ending.waiting.push_back(tools_.membership.IsWelcome(rank));
  }
  const control::Frame body = control::OneCommand([&](wire::Command::Builder command) {
    command.initCloseSession().setClientLost(client_lost);
  });
  broadcaster_.Send({session.id, session.generation, 0, SessionEntry::kEndRequest}, body);
  FinishIfClosed(session);
}

void SessionEnder::NoteClosed(SessionEntry& session, Rank rank, const control::RemoteError& error) {
  SessionEntry::Ending& ending = *session.ending;
  ending.waiting[static_cast<size_t>(rank)] = false;
  if (ending.error.ok()) ending.error = error;
  FinishIfClosed(session);
}

void SessionEnder::FinishIfClosed(SessionEntry& session) {
  const SessionEntry::Ending ending = *session.ending;
  if (std::find(ending.waiting.begin(), ending.waiting.end(), true) != ending.waiting.end()) return;
  const SessionId id = session.id;
  const control::PeerName client = session.client;
  log::Info(log::OfSession(id.value), "session has ended");
  gatherer_.FailAll(id, control::ErrorOf(Aborted("session ", id, " was closed")));
  sessions_.Close(id);
  if (ending.request.has_value()) messenger_.Answer(client, id, *ending.request, ending.error);
}

void SessionEnder::Abort(SessionEntry& session, const control::RemoteError& cause) {
  SessionEntry::Ending& ending = *session.ending;
  if (std::exchange(ending.aborted, true)) return;
  log::Warn(log::OfSession(session.id.value),
            "session is aborted while it is closed: ", cause.message);
  tools_.counts.aborts.Add();
  ending.aborted_at = tools_.clock.Now();
  ending.abort_cause = cause;
  liveness_.Abort(session.id, session.generation, 0, cause);
  failures_.EndPast(session, cause);
  const auto request = std::exchange(ending.request, std::nullopt);
  if (request.has_value()) messenger_.Answer(session.client, session.id, *request, cause);
}

void SessionEnder::AbortLate(SessionEntry& session) {
  std::vector<Rank> late;
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    if (session.ending->waiting[static_cast<size_t>(rank)]) late.push_back(rank);
  }
  Abort(session, control::ErrorOf(DeadlineExceeded(
                     "session ", session.id, " was not closed in time: ", ListRanks(late),
                     " had not finished ", late.size() == 1 ? "its" : "their",
                     " work, which is aborted now; `lockstep why` shows what does not end")));
}

}  // namespace lockstep::controller
