// Opens sessions, and lets clients wait for that until all workers are ready.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/broadcaster.h"
#include "services/controller/common/client_processes.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_identity.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/key_access.h"
#include "services/controller/sessions/session_table.h"
#include "services/controller/sessions/session_takeover.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class SessionOpener {
 public:
  SessionOpener(const Tools& tools, ClientProcesses& processes, Broadcaster& broadcaster,
                SessionTable& sessions, ClientMessenger& messenger, KeyAccess& access,
                SessionTakeover& takeover)
      : tools_(tools),
        processes_(processes),
        broadcaster_(broadcaster),
        sessions_(sessions),
        messenger_(messenger),
        access_(access),
        takeover_(takeover) {}

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

  const Tools& tools_;
  ClientProcesses& processes_;
  Broadcaster& broadcaster_;
  SessionTable& sessions_;
  ClientMessenger& messenger_;
  KeyAccess& access_;
  SessionTakeover& takeover_;
  std::vector<Waiting> waiting_;
};

}  // namespace lockstep::controller
