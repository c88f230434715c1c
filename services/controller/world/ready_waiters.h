// Clients that wait until all workers are ready again.
#pragma once

#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class ReadyWaiters {
 public:
  ReadyWaiters(const Tools& tools, ClientMessenger& messenger)
      : tools_(tools), messenger_(messenger) {}

  // The session's client waits. It is answered at once if all are ready as far as is known: losses
  // have been noticed before.
  void Handle(const SessionEntry& session, wire::AwaitWorkers::Reader await);
  void AnswerAll(const Status& status);
  // Answers those that have waited for too long with what is missing. Returns the first deadline to
  // come, or `next`.
  Deadline Expire(TimePoint now, Deadline next);

 private:
  struct Waiting {
    control::PeerName client;
    SessionId session;
    RequestId request;
    Deadline deadline;
  };

  const Tools& tools_;
  ClientMessenger& messenger_;
  std::vector<Waiting> waiting_;
};

}  // namespace lockstep::controller
