#include "services/controller/sessions/session_failures.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/operations.h"
#include "services/metrics/counters.h"

namespace lockstep::controller {

void SessionFailures::Fail(SessionEntry& session, const control::RemoteError& cause,
                           uint64_t from_command) {
  if (!session.failure.ok()) {
    if (from_command >= session.failed_from) return;
    session.failed_from = from_command;
    return AbortOnWorkers(session);
  }
  log::Warn(log::OfSession(session.id.value), "session failed: ", Message(cause.ToStatus()));
  FailFirst(session, cause, from_command);
}

void SessionFailures::GiveUp(SessionEntry& session) {
  log::Info(log::OfSession(session.id.value), "session is reset by its client");
  const control::RemoteError cause =
      control::ErrorOf(Aborted("session ", session.id, " was reset"));
  FailFirst(session, cause, 0);
  EndPast(session, cause);
}

void SessionFailures::EndPast(SessionEntry& session, const control::RemoteError& cause) {
  for (SessionEntry::PastFailure& past : session.past_failures) {
    // Told before: a client that resets ahead of a slow rank has many of these.
    if (past.failed_from == 0) continue;
    past.failed_from = 0;
    liveness_.Abort(session.id, past.generation, 0, cause);
  }
}

void SessionFailures::FailFirst(SessionEntry& session, const control::RemoteError& cause,
                                uint64_t from_command) {
  tools_.counts.errors[metrics::IndexOf(cause.code)].Add();
  tools_.counts.aborts.Add();
  tools_.tracing.Mark("session aborted", session.id, cause.command, cause.code);
  session.failure = cause;
  session.failed_from = from_command;
  session.failed_alike.clear();
  session.failure.session = session.id;
  AbortOnWorkers(session);
  messenger_.TellFailure(session);
  gatherer_.FailAll(session.id, session.failure);
}

void SessionFailures::AbortOnWorkers(const SessionEntry& session) {
  liveness_.Abort(session.id, session.generation, session.failed_from, session.failure);
}

void SessionFailures::RepeatAbort(const SessionEntry& session, Rank rank, uint64_t command) {
  for (const SessionEntry::PastFailure& past : session.past_failures) {
    if (command >= past.end) continue;
    if (command < past.failed_from) return;
    const control::RemoteError cause =
        control::ErrorOf(Aborted("session ", session.id, " was reset"));
    return liveness_.Abort(session.id, past.generation, past.failed_from, cause, rank);
  }
  if (session.ending.has_value() && session.ending->aborted) {
    return liveness_.Abort(session.id, session.generation, 0, session.ending->abort_cause, rank);
  }
  if (session.failure.ok() || command < session.failed_from) return;
  liveness_.Abort(session.id, session.generation, session.failed_from, session.failure, rank);
}

void SessionFailures::KeepPast(SessionEntry& session, Generation before, uint64_t failed_from) {
  session.past_failures.push_back({before, failed_from, session.commands.reset_at()});
  Generation least = session.generation;
  for (Rank rank = 0; rank < tools_.membership.size(); ++rank) {
    if (!tools_.membership.IsWelcome(rank)) continue;
    least = std::min(least, session.come_to[static_cast<size_t>(rank)]);
  }
  std::erase_if(session.past_failures, [&](const auto& past) { return past.generation < least; });
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

// A collective ends for want of a rank that waits itself. Where that one waits for the other half
// of a message, which comes after the collective, the message is why both wait in vain.
control::RemoteError SessionFailures::CauseOf(const SessionEntry& session,
                                              const control::RemoteError& error) const {
  // kUnavailable may have another cause: a process that has ended.
  if (error.code != StatusCode::kDeadlineExceeded || !session.failure.ok()) return error;
  control::RemoteError cause = error;
  // Which ranks the collective that failed was one of.
  const WorkerActivity failed = liveness_.LastHeardOf(error.rank).activity;
  const bool is_known = failed.kind == WorkerActivity::Kind::kCollective &&
                        failed.session == session.id && failed.command == error.command;
  const int size = tools_.membership.size();
  const int group_size = size / static_cast<int>(session.num_groups);
  for (Rank rank = 0; rank < size; ++rank) {
    const LastHeard heard = liveness_.LastHeardOf(rank);
    const WorkerActivity& activity = heard.activity;
    // What is told of an earlier generation has another cause.
    const bool is_behind = rank != error.rank && activity.session == session.id &&
                           activity.command >= session.commands.reset_at() &&
                           activity.command < cause.command;
    if (!is_behind || activity.kind != WorkerActivity::Kind::kCollective) continue;
    if (is_known && (rank < failed.first_rank || rank > failed.last_rank)) continue;
    const OperationFacts* const facts = FindOperationNamed(activity.what);
    if (facts == nullptr || facts->flow != DataFlow::kToNextGroup) continue;
    // It may be through since it was heard.
    const std::chrono::milliseconds long_enough = heard.is_present
                                                      ? tools_.options.heartbeat_interval
                                                      : tools_.options.collective_timeout / 2;
    const bool sends = facts->kind == OperationKind::kSendToNextGroup;
    const Rank peer = rank + (sends ? group_size : -group_size);
    if (activity.since < long_enough || peer < 0 || peer >= size) continue;
    cause = control::ErrorOf(DeadlineExceeded(
        "rank ", rank, sends ? " sends to" : " receives from", " rank ", peer,
        ", which has not come to its ", sends ? "receive" : "send", "; meanwhile, in command ",
        error.command, " of rank ", error.rank, ": ", error.message));
    cause.session = session.id;
    cause.rank = rank;
    cause.command = activity.command;
    cause.function = activity.WhatAndPlace();
  }
  return cause;
}

void SessionFailures::NoteAlike(SessionEntry& session, const control::RemoteError& error) {
  const control::RemoteError& first = session.failure;
  if (error.command != first.command || error.code != first.code || error.rank == first.rank) {
    return;
  }
  std::vector<Rank>& ranks = session.failed_alike;
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), error.rank);
  if (at == ranks.end() || *at != error.rank) ranks.insert(at, error.rank);
}

void SessionFailures::HandleFailure(Rank rank, wire::Failure::Reader failure) {
  control::RemoteError error = control::ReadError(failure.getError());
  error.rank = rank;
  const Generation generation(failure.getGeneration());
  SessionEntry* session = sessions_.Find(error.session);
  if (session == nullptr || generation > session->generation) return;
  if (generation == session->generation) {
    if (!session->failure.ok()) NoteAlike(*session, error);
    const control::RemoteError cause = CauseOf(*session, error);
    return Fail(*session, cause, cause.command);
  }
  // A rank that was behind has failed earlier than the one that the client has read of. Nothing is
  // to be told any more, but its peers may be waiting for it in a command of that time.
  liveness_.Abort(session->id, generation, error.command, error);
  for (SessionEntry::PastFailure& past : session->past_failures) {
    if (past.generation != generation) continue;
    past.failed_from = std::min(past.failed_from, error.command);
  }
}

}  // namespace lockstep::controller
