// What the workers' registers hold: asked for by clients, told by the workers.
#pragma once

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/outbox.h"
#include "services/controller/common/tools.h"
#include "services/controller/reports/inquiries.h"
#include "services/controller/reports/unread_answers.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class RegisterReport {
 public:
  RegisterReport(const Tools& tools, Outbox& outbox, Liveness& liveness, SessionTable& sessions,
                 Inquiries& inquiries, UnreadAnswers& unread)
      : tools_(tools),
        outbox_(outbox),
        liveness_(liveness),
        sessions_(sessions),
        inquiries_(inquiries),
        unread_(unread) {}

  // Asks the workers.
  Status Ask(const control::PeerName& client, wire::ListRegisters::Reader question);
  // Tells the client what they have answered, or why they have not.
  void Send(const Inquiry& inquiry);

 private:
  std::string WhyNot(Rank rank) const;

  const Tools& tools_;
  Outbox& outbox_;
  Liveness& liveness_;
  SessionTable& sessions_;
  Inquiries& inquiries_;
  UnreadAnswers& unread_;
};

}  // namespace lockstep::controller
