// How sessions end.
//
// A session that ends stays in the table until every rank has executed what was sent before and has
// freed what it held: until then its work may hold other sessions up, so it must be possible to
// abort it, and its client is told that the controller lives.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/keys/allow_list.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/broadcaster.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/gatherer.h"
#include "services/controller/sessions/key_access.h"
#include "services/controller/sessions/session_failures.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// All but Abort(), AbortLate() and EndAll() may take a session out of the table.
//
// Threads: one at a time. What it is made of must outlive it.
class SessionEnder {
 public:
  SessionEnder(const Tools& tools, Broadcaster& broadcaster, Liveness& liveness,
               SessionTable& sessions, Gatherer& gatherer, ClientMessenger& messenger,
               SessionFailures& failures, KeyAccess& access)
      : tools_(tools),
        broadcaster_(broadcaster),
        liveness_(liveness),
        sessions_(sessions),
        gatherer_(gatherer),
        messenger_(messenger),
        failures_(failures),
        access_(access) {}

  // The client closes it: what was sent before is executed, then all is freed and it is answered.
  void HandleClose(const control::PeerName& client, wire::CloseSession::Reader close);
  // Another client (`sender`: as its key has shown; null: it needs none) asks for a session's end:
  // an operator for any, others for those of their own key. Its work is aborted, and its client
  // told.
  void HandleEnd(const control::PeerName& client, const control::Identity* sender,
                 wire::EndSession::Reader end);
  // No client cares for its work any more, which is aborted.
  void EndWithoutClient(SessionEntry& session, const control::RemoteError& cause);
  // Those of clients whose keys were revoked.
  void EndRevoked();
  // The cluster ends: all work in flight is aborted, and all clients are told why.
  void EndAll(const std::string& reason);

  // `rank` has closed it, or is lost (`error` says so).
  void NoteClosed(SessionEntry& session, Rank rank, const control::RemoteError& error);
  // It is being closed: what it still does is aborted on all ranks, and the close is answered.
  void Abort(SessionEntry& session, const control::RemoteError& cause);
  // ... because the deadline of the close has passed.
  void AbortLate(SessionEntry& session);

 private:
  // Has it closed by all ranks. `request` is answered then, or at the deadline; with `lost` if that
  // is an error.
  void End(SessionEntry& session, std::optional<RequestId> request, Deadline deadline,
           bool client_lost, const control::RemoteError& lost);
  void FinishIfClosed(SessionEntry& session);
  // Ends the session of this number; an error: there is none, or `sender` may not.
  Status EndFor(const control::Identity* sender, SessionId id, const std::string& reason);

  const Tools& tools_;
  Broadcaster& broadcaster_;
  Liveness& liveness_;
  SessionTable& sessions_;
  Gatherer& gatherer_;
  ClientMessenger& messenger_;
  SessionFailures& failures_;
  KeyAccess& access_;
};

}  // namespace lockstep::controller
