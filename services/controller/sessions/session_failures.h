// How a session's work fails: the first cause wins (docs/adr/0005-first-cause-and-generations.md).
#pragma once

#include <cstdint>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/error_codec.h"
#include "schemas/control.capnp.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/gatherer.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class SessionFailures {
 public:
  SessionFailures(const Tools& tools, Liveness& liveness, SessionTable& sessions,
                  Gatherer& gatherer, ClientMessenger& messenger)
      : tools_(tools),
        liveness_(liveness),
        sessions_(sessions),
        gatherer_(gatherer),
        messenger_(messenger) {}

  // The session's work of its generation ends from a command on (0: all that is in flight): workers
  // and client learn the cause, and all requests are answered with it. If it has failed before, its
  // first cause stays; but a worker that was behind may have failed at an earlier command.
  void Fail(SessionEntry& session, const control::RemoteError& cause, uint64_t from_command = 0);
  // The client resets the session, which has not failed: all of its work ends.
  void GiveUp(SessionEntry& session);
  // What ranks that are behind still execute of earlier generations ends, also below the commands
  // that had failed there.
  void EndPast(SessionEntry& session, const control::RemoteError& cause);
  // It fails, and goes on failing after every reset.
  void Break(SessionEntry& session, const Status& why);
  // It fails if the client has sent commands before `next_command` that have not come.
  void NoticeLostBatches(SessionEntry& session, uint64_t next_command);
  // Tells the workers of its failure; again where one may not have heard it.
  void AbortOnWorkers(const SessionEntry& session);
  // `rank` is still in the session's collective `command`. Is that aborted, it is told once more:
  // the liveness connection may have been broken when it was told, and without an abort it would
  // wait until the collective's deadline.
  void RepeatAbort(const SessionEntry& session, Rank rank, uint64_t command);
  // `failed_from` is of the generation before this one, which a reset has just begun: for ranks
  // that have yet to come to it.
  void KeepPast(SessionEntry& session, Generation before, uint64_t failed_from);
  // A command of the session has failed on a worker.
  void HandleFailure(Rank rank, wire::Failure::Reader failure);

 private:
  // The cause of `error`, which a worker has told: a rank that waits in an earlier command of the
  // session for the other half of a message, if that is why others wait in vain; else `error`.
  control::RemoteError CauseOf(const SessionEntry& session,
                               const control::RemoteError& error) const;
  // Keeps that a command of a session which has failed has failed on `rank` as well.
  static void NoteAlike(SessionEntry& session, const control::RemoteError& error);
  // The session has not failed before.
  void FailFirst(SessionEntry& session, const control::RemoteError& cause, uint64_t from_command);

  const Tools& tools_;
  Liveness& liveness_;
  SessionTable& sessions_;
  Gatherer& gatherer_;
  ClientMessenger& messenger_;
};

}  // namespace lockstep::controller
