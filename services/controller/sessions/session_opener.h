// Opens sessions, and lets clients wait for that until all workers are ready.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/frame.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/broadcaster.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/counts.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/tracing.h"
#include "services/controller/options.h"
#include "services/controller/sessions/client_identity.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/key_access.h"
#include "services/controller/sessions/session_table.h"
#include "services/controller/sessions/session_takeover.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class SessionOpener {
 public:
  SessionOpener(const ControllerOptions& options, const Clock& clock, Timers& timers,
                const Membership& membership, SessionTable& sessions, ClientMessenger& messenger,
                Broadcaster& broadcaster, KeyAccess& access, SessionTakeover& takeover,
                Counts& counts, Tracing& tracing)
      : options_(options),
        clock_(clock),
        timers_(timers),
        membership_(membership),
        sessions_(sessions),
        messenger_(messenger),
        broadcaster_(broadcaster),
        access_(access),
        takeover_(takeover),
        counts_(counts),
        tracing_(tracing) {}

  // `message` opens, attaches to or resumes a session: at once, or when all workers are ready. A
  // client that has not got one by then is refused.
  void Handle(Applicant applicant, const control::Frame& message, uint64_t timeout_millis);

  // All workers are ready, as far as is known.
  void OpenWaiting();
  // Refuses those that have waited for too long. Returns the first deadline to come, or `next`.
  Deadline Expire(TimePoint now, Deadline next);
  // None is opened any more.
  void RefuseAll(const Status& why);

 private:
  struct Waiting {
    Applicant applicant;
    control::Frame message;
    Deadline deadline;
  };

  Status Open(const Applicant& applicant, wire::OpenSession::Reader open);

  const ControllerOptions& options_;
  const Clock& clock_;
  Timers& timers_;
  const Membership& membership_;
  SessionTable& sessions_;
  ClientMessenger& messenger_;
  Broadcaster& broadcaster_;
  KeyAccess& access_;
  SessionTakeover& takeover_;
  Counts& counts_;
  Tracing& tracing_;
  std::vector<Waiting> waiting_;
};

}  // namespace lockstep::controller
