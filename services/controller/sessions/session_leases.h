// How long sessions live without a word of their clients, after the end of their clients'
// processes, and without clients at all.
#pragma once

#include <string>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/session_ender.h"
#include "services/controller/sessions/session_failures.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Threads: one at a time. What it is made of must outlive it.
class SessionLeases {
 public:
  SessionLeases(const Tools& tools, SessionTable& sessions, ClientMessenger& messenger,
                SessionFailures& failures, SessionEnder& ender)
      : tools_(tools),
        sessions_(sessions),
        messenger_(messenger),
        failures_(failures),
        ender_(ender) {}

  // The client lives, and learns whether any message of its own is missing.
  Status HandleKeepAlive(const control::PeerName& client, wire::KeepAlive::Reader keep_alive);
  // The client leaves; its session stays for as long as it was opened with.
  Status HandleDetach(const control::PeerName& client, wire::DetachSession::Reader detach);

  // All workers are ready: from now on clients may come back.
  void Renew();
  // That time was no client's silence: nothing could be heard.
  void Forgive(Deadline::Clock::duration gap);
  // Ends what is over. Returns the first deadline to come, or `next`.
  Deadline Expire(TimePoint now, Deadline next);

 private:
  // The session's client is not heard any more. Why, for people; empty: it may be.
  std::string WhyClientIsGone(SessionEntry& session, TimePoint now) const;
  // May take it out of the table.
  void EndOfLease(SessionEntry& session, const std::string& why);

  const Tools& tools_;
  SessionTable& sessions_;
  ClientMessenger& messenger_;
  SessionFailures& failures_;
  SessionEnder& ender_;
};

}  // namespace lockstep::controller
