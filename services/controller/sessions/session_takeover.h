// How sessions get clients again: another one attaches, or its own comes back to it; and how they
// get a controller again that was started in place of a lost one
// (docs/adr/0008-controllers-that-are-started-again.md).
#pragma once

#include <string>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/broadcaster.h"
#include "services/controller/common/client_processes.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_identity.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/key_access.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class SessionTakeover {
 public:
  SessionTakeover(const Tools& tools, ClientProcesses& processes, Broadcaster& broadcaster,
                  SessionTable& sessions, ClientMessenger& messenger, KeyAccess& access)
      : tools_(tools),
        processes_(processes),
        broadcaster_(broadcaster),
        sessions_(sessions),
        messenger_(messenger),
        access_(access) {}

  // Another client has the session from now on, if it shows its token and no client has it.
  // kDataLoss: there is no such session any more; kPermissionDenied: the token is not its own;
  // kFailedPrecondition: it has a client, or its last one may still come back to it.
  Status Attach(const Applicant& applicant, wire::AttachSession::Reader attach);
  // The client that had the session under a lost controller has it again, or is refused.
  void Resume(const Applicant& applicant, wire::ResumeSession::Reader resume);

  // Puts together the sessions of a lost controller from what the ranks have brought along; null:
  // it counts for nothing. They wait for their clients, who find them failed.
  void Restore(const std::vector<const Inventory*>& by_rank);

 private:
  // The session that the token belongs to, which has no other client. `how`: "resumed", ...
  StatusOr<SessionEntry*> FindByToken(const control::PeerName& client, SessionId id,
                                      const std::string& token, const std::string& how);
  Status CheckResume(const control::PeerName& client, wire::ResumeSession::Reader resume);
  // Tells the workers who its client is now. Registers without names are freed.
  void AdoptClient(SessionEntry& session, const std::string& name, wire::Host::Reader host,
                   int pid);
  // Tells the workers what is known of its client.
  void BroadcastClient(const SessionEntry& session);
  // It has this client from now on, which is told how it stands.
  void HandOver(SessionEntry& session, const Applicant& applicant);

  const Tools& tools_;
  ClientProcesses& processes_;
  Broadcaster& broadcaster_;
  SessionTable& sessions_;
  ClientMessenger& messenger_;
  KeyAccess& access_;
};

}  // namespace lockstep::controller
