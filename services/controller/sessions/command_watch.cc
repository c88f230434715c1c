#include "services/controller/sessions/command_watch.h"

#include <algorithm>
#include <string>

#include "runtime/base/host_identity.h"
#include "runtime/base/log.h"
#include "runtime/base/quantity.h"

namespace lockstep::controller {
namespace {

// The session that has ended, and of which a worker still executes a command that was aborted with
// it; null: it executes no such command.
const SessionEntry* EndedSessionOf(const SessionTable& sessions, const WorkerActivity& activity) {
  if (activity.kind != WorkerActivity::Kind::kCommand) return nullptr;
  const SessionEntry* const session = sessions.Find(activity.session);
  const bool is_aborted =
      session != nullptr && session->ending.has_value() && session->ending->aborted;
  return is_aborted ? session : nullptr;
}

}  // namespace

bool IsStuck(const WorkerActivity& activity, std::chrono::milliseconds stuck_after,
             std::chrono::milliseconds longest_before) {
  return activity.kind == WorkerActivity::Kind::kCommand &&
         activity.since >= std::max(stuck_after, 2 * longest_before);
}

bool CommandWatch::IsStuck(const WorkerActivity& activity) const {
  return controller::IsStuck(activity, tools_.options.stuck_after, LongestBefore(activity));
}

// What failed, or was aborted, says nothing about how long its function takes.
void CommandWatch::NoteTime(Rank rank, const Membership::Member& member,
                            const WorkerActivity& activity) {
  const SessionEntry* const session = sessions_.Find(times_.SessionOf(rank));
  times_.Note(rank, member.watch, activity, session != nullptr && session->failure.ok());
}

void CommandWatch::Look() {
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    const Membership::Member& member = tools_.membership.member(rank);
    if (member.state != Membership::State::kReady) continue;
    const WorkerActivity activity = liveness_.LastHeardOf(rank).activity;
    NoteTime(rank, member, activity);
    // Before that which may abort it for the first time.
    RepeatAbort(rank, activity);
    FailIfOverdue(rank, activity);
    TellIfStuck(rank, activity);
    TellIfEnded(rank, activity);
  }
}

void CommandWatch::TellIfStuck(Rank rank, const WorkerActivity& activity) {
  const Membership::Member& member = tools_.membership.member(rank);
  Told& told = told_[static_cast<size_t>(rank)];
  const Told command{member.watch, activity.launched};
  if (!IsStuck(activity) || told == command) return;
  told = command;
  const std::chrono::milliseconds longest = LongestBefore(activity);
  log::Warn(log::OfRank(rank), "worker (", ProcessLabel(member.facts.host, member.facts.pid),
            longest.count() > 0 ? ") is stuck: it executes " : ") is stuck, or slow: it executes ",
            activity.Describe(),
            longest.count() > 0
                ? "; this function took " + RoundedDuration(longest) + " at most before"
                : "");
}

void CommandWatch::TellIfEnded(Rank rank, const WorkerActivity& activity) {
  // What gives up does so by then.
  constexpr std::chrono::seconds kGivesUp{2};
  const SessionEntry* const session = EndedSessionOf(sessions_, activity);
  if (session == nullptr || tools_.clock.Now() - session->ending->aborted_at < kGivesUp) return;
  const Membership::Member& member = tools_.membership.member(rank);
  Told& told = told_ended_[static_cast<size_t>(rank)];
  const Told command{member.watch, activity.launched};
  if (told == command) return;
  told = command;
  log::Warn(log::OfRank(rank), "worker (", ProcessLabel(member.facts.host, member.facts.pid),
            ") holds all sessions up: it still executes ", activity.Describe(),
            ", which has ended, and does not give up; ", tools_.membership.Ending(rank));
}

void CommandWatch::FailIfOverdue(Rank rank, const WorkerActivity& activity) {
  if (activity.kind != WorkerActivity::Kind::kCommand) return;
  SessionEntry* session = sessions_.Find(activity.session);
  if (session == nullptr || !session->failure.ok()) return;
  // What a rank still executes of the time before a reset has failed already.
  if (activity.command < session->commands.reset_at()) return;
  if (session->command_timeout.count() == 0 || activity.since < session->command_timeout) return;
  const Membership::Member& member = tools_.membership.member(rank);
  control::RemoteError error = control::ErrorOf(DeadlineExceeded(
      "worker rank ", rank, " (", ProcessLabel(member.facts.host, member.facts.pid),
      ") has been executing it for ", activity.since.count(), " ms, longer than the ",
      session->command_timeout.count(), " ms that the session gives its commands"));
  error.rank = rank;
  error.command = activity.command;
  error.function = activity.WhatAndPlace();
  failures_.Fail(*session, error, activity.command);
}

void CommandWatch::RepeatAbort(Rank rank, const WorkerActivity& activity) {
  // A rank that has heard the abort leaves its collective at once, and a fragment's loop. Functions
  // that do not ask whether they are wanted are told in vain, which is no harm.
  const bool may_wait = (activity.kind == WorkerActivity::Kind::kCollective ||
                         activity.kind == WorkerActivity::Kind::kCommand) &&
                        activity.since >= tools_.options.heartbeat_interval;
  if (!may_wait) return;
  const SessionEntry* const session = sessions_.Find(activity.session);
  if (session != nullptr) failures_.RepeatAbort(*session, rank, activity.command);
}

control::RemoteError LateError(const Membership& membership, const Liveness& liveness,
                               const SessionTable& sessions, SessionId session,
                               const std::vector<Rank>& late) {
  control::RemoteError error;
  std::string text;
  for (const Rank rank : late) {
    const WorkerActivity activity = liveness.LastHeardOf(rank).activity;
    const Membership::Member& member = membership.member(rank);
    std::string what = "rank " + std::to_string(rank) + " (" +
                       ProcessLabel(member.facts.host, member.facts.pid) + ") executes " +
                       activity.Describe();
    if (EndedSessionOf(sessions, activity) != nullptr) {
      // The cause comes first: others may only be waiting for it.
      what += ", which has ended, and does not give up (" + membership.Ending(rank) + ")";
      text.insert(0, text.empty() ? what : what + "; ");
      continue;
    }
    text += (text.empty() ? "" : "; ") + what;
    // A rank that executes something of its own is nearer to the cause than one that waits in a
    // collective. Another session's command is no place in this one.
    if (error.rank >= 0 || activity.kind != WorkerActivity::Kind::kCommand) continue;
    if (activity.session != session) continue;
    error.rank = rank;
    error.session = session;
    error.command = activity.command;
    error.function = activity.WhatAndPlace();
  }
  error.code = StatusCode::kDeadlineExceeded;
  error.message = "no answer in time: " + text + "; `lockstep why` tells more";
  return error;
}

}  // namespace lockstep::controller
