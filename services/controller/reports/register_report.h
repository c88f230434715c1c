// What the workers' registers hold: asked for by clients, told by the workers.
#pragma once

#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/clock.h"
#include "services/controller/common/liveness.h"
#include "services/controller/common/membership.h"
#include "services/controller/common/outbox.h"
#include "services/controller/options.h"
#include "services/controller/reports/inquiries.h"
#include "services/controller/reports/unread_answers.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class RegisterReport {
 public:
  RegisterReport(const ControllerOptions& options, Timers& timers, const Membership& membership,
                 SessionTable& sessions, Liveness& liveness, Inquiries& inquiries, Outbox& outbox,
                 UnreadAnswers& unread)
      : options_(options),
        timers_(timers),
        membership_(membership),
        sessions_(sessions),
        liveness_(liveness),
        inquiries_(inquiries),
        outbox_(outbox),
        unread_(unread) {}

  // Asks the workers.
  Status Ask(const control::PeerName& client, wire::ListRegisters::Reader question);
  // Tells the client what they have answered, or why they have not.
  void Send(const Inquiry& inquiry);

 private:
  std::string WhyNot(Rank rank) const;

  const ControllerOptions& options_;
  Timers& timers_;
  const Membership& membership_;
  SessionTable& sessions_;
  Liveness& liveness_;
  Inquiries& inquiries_;
  Outbox& outbox_;
  UnreadAnswers& unread_;
};

}  // namespace lockstep::controller
