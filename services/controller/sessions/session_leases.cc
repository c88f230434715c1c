#include "services/controller/sessions/session_leases.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/base/log.h"

namespace lockstep::controller {
namespace {

// How long after a client's end what it has sent may take to come.
constexpr std::chrono::milliseconds kLastWords{200};
// What docs/failures.md promises.
static_assert(Timers::kInterval + kLastWords <= std::chrono::milliseconds(500));

// Of a client whose process has ended.
TimePoint LastWordsUntil(const SessionEntry& session) {
  return std::max(*session.ended_at, session.last_heard) + kLastWords;
}

}  // namespace

Status SessionLeases::HandleKeepAlive(const control::PeerName& client,
                                      wire::KeepAlive::Reader keep_alive) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry* const session,
                            sessions_.FindOwned(SessionId(keep_alive.getSession()), client));
  session->last_heard = tools_.clock.Now();
  const bool missing = session->heard_messages < keep_alive.getSent();
  session->heard_messages = std::max(session->heard_messages, keep_alive.getSent());
  if (keep_alive.getTellAgain()) {
    if (!session->failure.ok()) messenger_.TellFailure(*session);
    messenger_.TellCredit(*session);
    messenger_.TellReplaced(*session);
    session->output.Forget();
  }
  messenger_.TellKeepAlive(*session, missing);
  return OkStatus();
}

Status SessionLeases::HandleDetach(const control::PeerName& client,
                                   wire::DetachSession::Reader detach) {
  LOCKSTEP_ASSIGN_OR_RETURN(SessionEntry * session,
                            sessions_.FindOpen(SessionId(detach.getSession()), client));
  const RequestId request(detach.getRequest());
  if (session->keep_for.count() == 0) {
    messenger_.Answer(client, session->id, request,
                      control::ErrorOf(FailedPrecondition(
                          "session ", session->id,
                          " is not kept without a client; open it with SessionOptions::keep_for")));
    return OkStatus();
  }
  log::Info(log::OfSession(session->id.value), "session is left by its client, and kept for ",
            session->keep_for.count(), " ms");
  messenger_.Answer(client, session->id, request, control::RemoteError());
  session->client_lost = false;
  session->KeepWithoutClient(tools_.timers.After(static_cast<uint64_t>(session->keep_for.count())));
  return OkStatus();
}

void SessionLeases::Renew() {
  const Deadline lease = Deadline::At(tools_.clock.Now() + tools_.options.session_lease);
  for (auto& [id, session] : sessions_.all()) {
    if (lease.when() > session.kept_until.when()) session.kept_until = lease;
    if (std::exchange(session.was_restored, false)) session.owner_until = lease;
  }
}

void SessionLeases::Forgive(Deadline::Clock::duration gap) {
  const TimePoint now = tools_.clock.Now();
  for (auto& [id, session] : sessions_.all()) {
    session.last_heard = std::min(now, session.last_heard + gap);
    session.kept_until = Deadline::At(session.kept_until.when() + gap);
    session.owner_until = Deadline::At(session.owner_until.when() + gap);
  }
}

Deadline SessionLeases::Expire(TimePoint now, Deadline next) {
  for (const SessionId id : sessions_.Ids()) {
    SessionEntry& session = *sessions_.Find(id);
    const bool may_end_late = session.ending.has_value() && !session.ending->aborted;
    if (may_end_late && session.ending->deadline.when() > now) {
      next = next.Earlier(session.ending->deadline);
    } else if (may_end_late) {
      ender_.AbortLate(session);
    }
    if (session.client.empty()) {
      // No client can come back while the world is not whole.
      const bool is_over = session.kept_until.when() <= now && tools_.membership.AllReady();
      if (is_over) EndOfLease(session, "no client came back to it");
    } else if (const std::string why = WhyClientIsGone(session, now); !why.empty()) {
      EndOfLease(session, why);
    } else if (session.ended_at.has_value() && !session.ending.has_value()) {
      next = next.Earlier(Deadline::At(LastWordsUntil(session)));
    }
  }
  return next;
}

std::string SessionLeases::WhyClientIsGone(SessionEntry& session, TimePoint now) const {
  if (now - session.last_heard > tools_.options.session_lease) {
    return "which was silent for " + std::to_string(tools_.options.session_lease.count()) + " ms";
  }
  // One that has closed its session wants what it sent before to be executed, and need not wait.
  const bool is_watched = session.process != nullptr && !session.ending.has_value();
  if (!is_watched) return "";
  if (!session.ended_at.has_value() && session.process->HasEnded()) session.ended_at = now;
  // What it said before its end, a close or a leave-taking perhaps, is read first.
  const bool is_read = session.ended_at.has_value() && now >= LastWordsUntil(session);
  return is_read ? "whose process has ended" : "";
}

void SessionLeases::EndOfLease(SessionEntry& session, const std::string& why) {
  const control::RemoteError cause = control::ErrorOf(Aborted("its client is gone"));
  if (session.ending.has_value()) return ender_.Abort(session, cause);
  if (session.client.empty()) {
    log::Warn(log::OfSession(session.id.value), "session of ", session.host, " (pid ", session.pid,
              ") ends: ", why);
    return ender_.EndWithoutClient(session, cause);
  }
  log::Warn(log::OfSession(session.id.value), "session of ", session.host, " (pid ", session.pid,
            ") has lost its client, ", why);
  if (session.keep_for.count() == 0) return ender_.EndWithoutClient(session, cause);
  failures_.Fail(session, cause);
  session.client_lost = true;
  session.KeepWithoutClient(tools_.timers.After(static_cast<uint64_t>(session.keep_for.count())));
}

}  // namespace lockstep::controller
